// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build amd64 && !noasm && !gccgo && !safe && !purego

#include "textflag.h"
#include "tail_amd64.h"

// SHRINK replaces v by v − clip(v, −Y2, Y2). Y3 holds the bits of the signs.
#define SHRINK(v) \
	VANDPD  v, Y3, Y6; \
	VANDNPD v, Y3, Y7; \
	VMINPD  Y7, Y2, Y7; \
	VORPD   Y6, Y7, Y7; \
	VSUBPD  Y7, v, v

// func shrinkDot(theta, x, a *float64, n int, tau float64) float64
//
// The first n numbers of theta get soft(x, tau). Returns their sum with weights a. n > 0.
TEXT ·shrinkDot(SB), NOSPLIT, $0-48
	MOVQ theta+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ a+16(FP), DX
	MOVQ n+24(FP), BX
	TAIL
	VBROADCASTSD tau+32(FP), Y2
	VPCMPEQQ     Y3, Y3, Y3
	VPSLLQ       $63, Y3, Y3
	VXORPD       Y0, Y0, Y0      // the sums of numbers 0 to 3 of eight
	VXORPD       Y1, Y1, Y1      // of numbers 4 to 7
	SUBQ         $8, BX
	JLT          shrinkFour

shrinkEight:
	VMOVUPD (SI), Y4
	VMOVUPD 32(SI), Y5
	SHRINK(Y4)
	SHRINK(Y5)
	VMOVUPD Y4, (DI)
	VMOVUPD Y5, 32(DI)
	VMULPD  (DX), Y4, Y4
	VMULPD  32(DX), Y5, Y5
	VADDPD  Y4, Y0, Y0
	VADDPD  Y5, Y1, Y1
	ADDQ    $64, SI
	ADDQ    $64, DI
	ADDQ    $64, DX
	SUBQ    $8, BX
	JGE     shrinkEight

shrinkFour:
	TESTQ   $4, BX              // BX is 8 too small, which bits 0 to 2 do not show
	JZ      shrinkTail
	VMOVUPD (SI), Y4
	SHRINK(Y4)
	VMOVUPD Y4, (DI)
	VMULPD  (DX), Y4, Y4
	VADDPD  Y4, Y0, Y0
	ADDQ    $32, SI
	ADDQ    $32, DI
	ADDQ    $32, DX

shrinkTail:
	TESTQ      $3, BX
	JZ         shrinkSum
	VMASKMOVPD (SI), Y15, Y4
	VMASKMOVPD (DX), Y15, Y5
	SHRINK(Y4)
	VMASKMOVPD Y4, Y15, (DI)
	VMULPD     Y5, Y4, Y4       // +0 in other lanes, which changes no sum that began with +0
	TESTQ      $4, BX
	JNZ        shrinkLast
	VADDPD     Y4, Y0, Y0
	JMP        shrinkSum

shrinkLast:
	VADDPD Y4, Y1, Y1

shrinkSum:
	VADDPD       Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD       X1, X0, X0
	VUNPCKHPD    X0, X0, X1
	VADDSD       X1, X0, X0
	VMOVSD       X0, ret+40(FP)
	VZEROUPPER
	RET

// RELAX does four coordinates: t in Y8, x in Y9, a in Y10 and q in Y11. The new x is in Y9. Of two
// operands of which one is not a number, VMAXPD and VMINPD return the one written first.
#define RELAX \
	VMULPD Y8, Y0, Y12; \
	VSUBPD Y9, Y12, Y12; \
	VMULPD Y10, Y1, Y10; \
	VSUBPD Y10, Y12, Y12; \
	VMULPD Y11, Y2, Y11; \
	VSUBPD Y11, Y12, Y12; \
	VMAXPD Y12, Y3, Y12; \
	VMINPD Y12, Y4, Y12; \
	VSUBPD Y8, Y12, Y12; \
	VMULPD Y12, Y5, Y12; \
	VADDPD Y12, Y9, Y9

// func relax(x, theta, a, q *float64, n int, alpha, c, omega, lo, hi, lambda float64)
//
// Relax for n > 0 coordinates.
TEXT ·relax(SB), NOSPLIT, $0-88
	MOVQ x+0(FP), DI
	MOVQ theta+8(FP), SI
	MOVQ a+16(FP), DX
	MOVQ q+24(FP), CX
	MOVQ n+32(FP), BX
	TAIL
	VBROADCASTSD alpha+40(FP), Y0
	VBROADCASTSD c+48(FP), Y1
	VBROADCASTSD omega+56(FP), Y2
	VBROADCASTSD lo+64(FP), Y3
	VBROADCASTSD hi+72(FP), Y4
	VBROADCASTSD lambda+80(FP), Y5
	XORQ         AX, AX
	SUBQ         $4, BX
	JLT          relaxTail

relaxFour:
	VMOVUPD (SI)(AX*8), Y8
	VMOVUPD (DI)(AX*8), Y9
	VMOVUPD (DX)(AX*8), Y10
	VMOVUPD (CX)(AX*8), Y11
	RELAX
	VMOVUPD Y9, (DI)(AX*8)
	ADDQ    $4, AX
	SUBQ    $4, BX
	JGE     relaxFour

relaxTail:
	TESTQ      $3, BX
	JZ         relaxDone
	VMASKMOVPD (SI)(AX*8), Y15, Y8
	VMASKMOVPD (DI)(AX*8), Y15, Y9
	VMASKMOVPD (DX)(AX*8), Y15, Y10
	VMASKMOVPD (CX)(AX*8), Y15, Y11
	RELAX
	VMASKMOVPD Y9, Y15, (DI)(AX*8)

relaxDone:
	VZEROUPPER
	RET

// SUM4 adds the four rows at R10, …, R13 times w0, …, w3 to y. The products are rounded.
#define SUM4(w0, w1, w2, w3, y, t0, t1, t2, t3) \
	VMULPD (R10), w0, t0; \
	VMULPD (R11), w1, t1; \
	VMULPD (R12), w2, t2; \
	VMULPD (R13), w3, t3; \
	VADDPD t0, y, y; \
	VADDPD t1, y, y; \
	VADDPD t2, y, y; \
	VADDPD t3, y, y

// NEXT4 moves dst and the four rows by n bytes.
#define NEXT4(n) \
	ADDQ $n, AX; \
	ADDQ $n, R10; \
	ADDQ $n, R11; \
	ADDQ $n, R12; \
	ADDQ $n, R13

// ROWS4 sets R10, …, R13 to four rows from SI on, and AX to dst.
#define ROWS4 \
	MOVQ SI, R10; \
	LEAQ (SI)(R8*1), R11; \
	LEAQ (SI)(R8*2), R12; \
	LEAQ (R11)(R8*2), R13; \
	MOVQ DI, AX

// func sumRows(dst, a, w *float64, groups, d, stride int)
//
// dst gets added groups·4 rows of d numbers that are stride numbers apart, each w times, in their
// order: every product and every sum is rounded. groups > 0, d > 0.
TEXT ·sumRows(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ w+16(FP), DX
	MOVQ groups+24(FP), CX
	MOVQ d+32(FP), BX
	TAIL
	LEAQ (DI)(R8*1), R14
	SUBQ AX, R14                // those columns of dst stay in Y14
	VMASKMOVPD (R14), Y15, Y14
	MOVQ stride+40(FP), R8
	SHLQ $3, R8

sumGroup:
	ROWS4
	VBROADCASTSD (DX), Y0
	VBROADCASTSD 8(DX), Y1
	VBROADCASTSD 16(DX), Y2
	VBROADCASTSD 24(DX), Y3
	MOVQ         BX, R9         // columns left
	SUBQ         $4, R9
	JLT          sumTail

sumFour:
	VMOVUPD (AX), Y4
	SUM4(Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8)
	VMOVUPD Y4, (AX)
	NEXT4(32)
	SUBQ    $4, R9
	JGE     sumFour

sumTail:
	TESTQ      $3, R9
	JZ         sumNext
	VMASKMOVPD (R10), Y15, Y5
	VMASKMOVPD (R11), Y15, Y6
	VMASKMOVPD (R12), Y15, Y7
	VMASKMOVPD (R13), Y15, Y8
	VMULPD     Y5, Y0, Y5
	VMULPD     Y6, Y1, Y6
	VMULPD     Y7, Y2, Y7
	VMULPD     Y8, Y3, Y8
	VADDPD     Y5, Y14, Y14
	VADDPD     Y6, Y14, Y14
	VADDPD     Y7, Y14, Y14
	VADDPD     Y8, Y14, Y14

sumNext:
	ADDQ $32, DX
	LEAQ (SI)(R8*4), SI
	DECQ CX
	JNZ  sumGroup
	VMASKMOVPD Y14, Y15, (R14)
	VZEROUPPER
	RET

// ZERO4 sets four sums to zero.
#define ZERO4(a, b, c, d) \
	VPXORQ a, a, a; \
	VPXORQ b, b, b; \
	VPXORQ c, c, c; \
	VPXORQ d, d, d

// COLUMNS32 adds 32 columns of a row, from R10 on and times Z31, to their sums and goes to done
// after the last. It fetches those of the next row.
#define COLUMNS32(n, a, b, c, d, done) \
	CMPQ   R9, $n; \
	JEQ    done; \
	PREFETCHT0 (R10)(R8*1); \
	PREFETCHT0 64(R10)(R8*1); \
	PREFETCHT0 128(R10)(R8*1); \
	PREFETCHT0 192(R10)(R8*1); \
	VMULPD (R10), Z31, Z24; \
	VMULPD 64(R10), Z31, Z25; \
	VMULPD 128(R10), Z31, Z26; \
	VMULPD 192(R10), Z31, Z27; \
	VADDPD Z24, a, a; \
	VADDPD Z25, b, b; \
	VADDPD Z26, c, c; \
	VADDPD Z27, d, d; \
	ADDQ   $256, R10

// COLUMNS8 adds the columns of a row in lanes k, from offset n of R10 on and times Z31, to their
// sums and goes to done if they were the last.
#define COLUMNS8(n, k, a, done) \
	VMULPD.Z n(R10), Z31, k, Z24; \
	VADDPD   Z24, a, a; \
	CMPQ     R11, $(n + 64); \
	JLE      done

// STORE32 stores 32 sums from DI on and goes to done after the last.
#define STORE32(n, a, b, c, d, done) \
	CMPQ    R9, $n; \
	JEQ     done; \
	VMOVUPD a, (DI); \
	VMOVUPD b, 64(DI); \
	VMOVUPD c, 128(DI); \
	VMOVUPD d, 192(DI); \
	ADDQ    $256, DI

// func sumRows8(dst, a, w *float64, rows, d, stride int)
//
// dst gets the sum of rows of d ≤ 128 numbers that are stride numbers apart, each w times, in their
// order: every product and every sum is rounded. rows > 0, d > 0. With AVX-512.
TEXT ·sumRows8(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ w+16(FP), DX
	MOVQ rows+24(FP), BX
	MOVQ d+32(FP), R9
	MOVQ stride+40(FP), R8
	SHLQ $3, R8
	MOVQ R9, R11
	ANDQ $31, R11
	SHLQ $3, R11                // the bytes of the last d mod 32 columns
	SHRQ $5, R9                 // the other columns, in groups of 32
	MOVQ d+32(FP), CX
	ANDQ $31, CX
	MOVQ  $1, R13
	SHLQ  CX, R13
	DECQ  R13                   // their lanes
	KMOVW R13, K1
	SHRQ  $8, R13
	KMOVW R13, K2
	SHRQ  $8, R13
	KMOVW R13, K3
	SHRQ  $8, R13
	KMOVW R13, K4
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	ZERO4(Z16, Z17, Z18, Z19)   // of the last d mod 32

sum8Row:
	VBROADCASTSD (DX), Z31
	MOVQ         SI, R10
	COLUMNS32(0, Z0, Z1, Z2, Z3, sum8Last)
	COLUMNS32(1, Z4, Z5, Z6, Z7, sum8Last)
	COLUMNS32(2, Z8, Z9, Z10, Z11, sum8Last)
	COLUMNS32(3, Z12, Z13, Z14, Z15, sum8Last)

sum8Last:
	COLUMNS8(0, K1, Z16, sum8Next)
	COLUMNS8(64, K2, Z17, sum8Next)
	COLUMNS8(128, K3, Z18, sum8Next)
	COLUMNS8(192, K4, Z19, sum8Next)

sum8Next:
	ADDQ $8, DX
	ADDQ R8, SI
	DECQ BX
	JNZ  sum8Row
	STORE32(0, Z0, Z1, Z2, Z3, sum8Store)
	STORE32(1, Z4, Z5, Z6, Z7, sum8Store)
	STORE32(2, Z8, Z9, Z10, Z11, sum8Store)
	STORE32(3, Z12, Z13, Z14, Z15, sum8Store)

sum8Store:
	VMOVUPD Z16, K1, (DI)
	VMOVUPD Z17, K2, 64(DI)
	VMOVUPD Z18, K3, 128(DI)
	VMOVUPD Z19, K4, 192(DI)
	VZEROUPPER
	RET
