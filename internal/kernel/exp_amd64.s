// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build amd64 && !noasm && !gccgo && !safe && !purego

#include "textflag.h"

// log₂e, 1.5·2⁵², the two parts of log 2, the bounds of the argument, and 1/n! for n = 1, …, 12.
DATA exps<>+0(SB)/8, $0x3ff71547652b82fe
DATA exps<>+8(SB)/8, $0x4338000000000000
DATA exps<>+16(SB)/8, $0x3fe62e42fee00000
DATA exps<>+24(SB)/8, $0x3dea39ef35793c76
DATA exps<>+32(SB)/8, $0xc086200000000000
DATA exps<>+40(SB)/8, $0x4086280000000000
DATA exps<>+48(SB)/8, $0x3ff0000000000000
DATA exps<>+56(SB)/8, $0x3fe0000000000000
DATA exps<>+64(SB)/8, $0x3fc5555555555555
DATA exps<>+72(SB)/8, $0x3fa5555555555555
DATA exps<>+80(SB)/8, $0x3f81111111111111
DATA exps<>+88(SB)/8, $0x3f56c16c16c16c17
DATA exps<>+96(SB)/8, $0x3f2a01a01a01a01a
DATA exps<>+104(SB)/8, $0x3efa01a01a01a01a
DATA exps<>+112(SB)/8, $0x3ec71de3a556c734
DATA exps<>+120(SB)/8, $0x3e927e4fb7789f5c
DATA exps<>+128(SB)/8, $0x3e5ae64567f544e4
DATA exps<>+136(SB)/8, $0x3e21eed8eff8d898
GLOBL exps<>(SB), RODATA|NOPTR, $144

// CONST sets y to the number at offset n of exps.
#define CONST(n, y) VBROADCASTSD exps<>+n(SB), y

// PAIR sets y to a + br, with a and b at offsets m and n of exps and r in Y6.
#define PAIR(m, n, y) \
	CONST(n, Y14); \
	VMULPD Y14, Y6, Y14; \
	CONST(m, y); \
	VADDPD Y14, y, y

// func addExp(p, b, c *float64, add, slope float64) (first, last float64)
//
// Adds exp(add + b − slope·c), the argument being limited to [−708, 709], to 16 numbers of p. Returns the
// first and the last of the numbers added.
TEXT ·addExp(SB), NOSPLIT, $0-56
	MOVQ p+0(FP), DI
	MOVQ b+8(FP), SI
	MOVQ c+16(FP), DX
	VBROADCASTSD add+24(FP), Y0
	VBROADCASTSD slope+32(FP), Y1
	CONST(0, Y2)
	CONST(8, Y3)
	CONST(16, Y4)
	CONST(24, Y5)
	XORQ AX, AX

expFour:
	VADDPD (SI)(AX*8), Y0, Y6
	VMULPD (DX)(AX*8), Y1, Y7
	VSUBPD Y7, Y6, Y6           // x
	CONST(32, Y8)
	VMAXPD Y6, Y8, Y6           // a NaN stays, as with the operands below
	CONST(40, Y8)
	VMINPD Y6, Y8, Y6
	VMULPD Y6, Y2, Y7
	VADDPD Y3, Y7, Y7           // its last bits are k, the integer next to x·log₂e
	VSUBPD Y3, Y7, Y8
	VPSLLQ $52, Y7, Y7
	CONST(48, Y9)
	VPADDQ Y9, Y7, Y7           // 2ᵏ
	VMULPD Y8, Y4, Y9
	VSUBPD Y9, Y6, Y6
	VMULPD Y8, Y5, Y9
	VSUBPD Y9, Y6, Y6           // r = x − k·log 2
	VMULPD Y6, Y6, Y8           // r²
	CONST(48, Y9)
	VADDPD Y6, Y9, Y9           // 1 + r
	PAIR(56, 64, Y10)
	VMULPD Y10, Y8, Y10
	VADDPD Y10, Y9, Y9          // terms 0 to 3
	PAIR(72, 80, Y10)
	PAIR(88, 96, Y11)
	VMULPD Y11, Y8, Y11
	VADDPD Y11, Y10, Y10        // terms 4 to 7, over r⁴
	PAIR(104, 112, Y11)
	PAIR(120, 128, Y12)
	VMULPD Y12, Y8, Y12
	VADDPD Y12, Y11, Y11        // terms 8 to 11, over r⁸
	VMULPD Y8, Y8, Y8           // r⁴
	VMULPD Y10, Y8, Y10
	VADDPD Y10, Y9, Y9
	CONST(136, Y12)
	VMULPD Y12, Y8, Y12
	VADDPD Y12, Y11, Y11
	VMULPD Y8, Y8, Y8
	VMULPD Y11, Y8, Y11
	VADDPD Y11, Y9, Y9
	VMULPD Y7, Y9, Y9           // times 2ᵏ
	VADDPD (DI)(AX*8), Y9, Y10
	VMOVUPD Y10, (DI)(AX*8)
	TESTQ AX, AX
	JNZ   expNext
	VMOVSD X9, first+40(FP)

expNext:
	ADDQ $4, AX
	CMPQ AX, $16
	JLT  expFour
	VEXTRACTF128 $1, Y9, X9
	VUNPCKHPD    X9, X9, X9
	VMOVSD       X9, last+48(FP)
	VZEROUPPER
	RET
