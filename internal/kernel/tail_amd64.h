// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// TAIL sets R8 to the bytes of a row of BX numbers, AX to those of its last BX mod 4 and Y15 to the lanes of these.
#define TAIL \
	LEAQ    (BX*8), R8; \
	MOVQ    BX, AX; \
	ANDQ    $3, AX; \
	SHLQ    $3, AX; \
	LEAQ    ·tails+32(SB), R9; \
	SUBQ    AX, R9; \
	VMOVUPD (R9), Y15
