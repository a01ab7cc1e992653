// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

//go:build amd64 && !noasm && !gccgo && !safe && !purego

#include "textflag.h"

#include "tail_amd64.h"

// Four lanes on, four off: the mask of the first k lanes starts k words before the middle.
DATA ·tails+0(SB)/8, $-1
DATA ·tails+8(SB)/8, $-1
DATA ·tails+16(SB)/8, $-1
DATA ·tails+24(SB)/8, $-1
GLOBL ·tails(SB), RODATA|NOPTR, $64

// FOUR sets R10, …, R13 to four rows from SI on.
#define FOUR \
	MOVQ SI, R10; \
	LEAQ (SI)(R8*1), R11; \
	LEAQ (SI)(R8*2), R12; \
	LEAQ (R11)(R8*2), R13

// STEP moves AX and the four rows by n bytes.
#define STEP(n) \
	ADDQ $n, AX; \
	ADDQ $n, R10; \
	ADDQ $n, R11; \
	ADDQ $n, R12; \
	ADDQ $n, R13

// DOT adds x times the four columns at offset n of the four rows to s0, …, s3.
#define DOT(n, x, s0, s1, s2, s3) \
	VFMADD231PD n(R10), x, s0; \
	VFMADD231PD n(R11), x, s1; \
	VFMADD231PD n(R12), x, s2; \
	VFMADD231PD n(R13), x, s3

// ROWS sets Y5, Y6, Y7 and Y12 to the last d mod 4 columns of the four rows.
#define ROWS \
	VMASKMOVPD (R10), Y15, Y5; \
	VMASKMOVPD (R11), Y15, Y6; \
	VMASKMOVPD (R12), Y15, Y7; \
	VMASKMOVPD (R13), Y15, Y12

// SCALED adds the four columns at offset n of the four rows, times Y0, …, Y3, to y.
#define SCALED(n, y) \
	VFMADD231PD n(R10), Y0, y; \
	VFMADD231PD n(R11), Y1, y; \
	VFMADD231PD n(R12), Y2, y; \
	VFMADD231PD n(R13), Y3, y

// OUTER4 adds left number n of a row, times its right ones in Y8 and Y9, to a and b.
#define OUTER4(n, a, b) \
	VBROADCASTSD n(SI), Y10; \
	VFMADD231PD  Y8, Y10, a; \
	VFMADD231PD  Y9, Y10, b

// TILE4 adds a and b to a row of the tile and goes to done after the last.
#define TILE4(a, b, done) \
	VADDPD  (DI), a, a; \
	VADDPD  32(DI), b, b; \
	VMOVUPD a, (DI); \
	VMOVUPD b, 32(DI); \
	DECQ    BX; \
	JZ      done; \
	ADDQ    R8, DI

// TILE8 is TILE4 for one register of eight numbers.
#define TILE8(a, done) \
	VADDPD  (DI), a, a; \
	VMOVUPD a, (DI); \
	DECQ    BX; \
	JZ      done; \
	ADDQ    R8, DI

// func mulRows(u, a, x *float64, groups, d int)
//
// u gets the products with x of groups·4 rows of d numbers, groups > 0, d > 0.
TEXT ·mulRows(SB), NOSPLIT, $0-40
	MOVQ u+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ x+16(FP), DX
	MOVQ groups+24(FP), CX
	MOVQ d+32(FP), BX
	TAIL

mulGroup:
	FOUR
	MOVQ   DX, AX
	VXORPD Y0, Y0, Y0           // their sums, even and odd columns of four
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y8, Y8, Y8
	VXORPD Y9, Y9, Y9
	VXORPD Y10, Y10, Y10
	VXORPD Y11, Y11, Y11
	MOVQ   BX, R9               // columns left
	SUBQ   $8, R9
	JLT    mulFour

mulEight:
	VMOVUPD     (AX), Y4
	VMOVUPD     32(AX), Y5
	DOT(0, Y4, Y0, Y1, Y2, Y3)
	DOT(32, Y5, Y8, Y9, Y10, Y11)
	STEP(64)
	SUBQ        $8, R9
	JGE         mulEight

mulFour:
	TESTQ       $4, R9          // R9 is 8 too small, which bits 0 to 2 do not show
	JZ          mulTail
	VMOVUPD     (AX), Y4
	DOT(0, Y4, Y0, Y1, Y2, Y3)
	STEP(32)

mulTail:
	TESTQ       $3, R9
	JZ          mulSum
	VMASKMOVPD  (AX), Y15, Y4
	ROWS
	VFMADD231PD Y5, Y4, Y8
	VFMADD231PD Y6, Y4, Y9
	VFMADD231PD Y7, Y4, Y10
	VFMADD231PD Y12, Y4, Y11

mulSum:
	VADDPD     Y8, Y0, Y0
	VADDPD     Y9, Y1, Y1
	VADDPD     Y10, Y2, Y2
	VADDPD     Y11, Y3, Y3
	VHADDPD    Y1, Y0, Y0       // pairs of rows 0 and 1
	VHADDPD    Y3, Y2, Y2       // pairs of rows 2 and 3
	VPERM2F128 $0x20, Y2, Y0, Y4
	VPERM2F128 $0x31, Y2, Y0, Y5
	VADDPD     Y5, Y4, Y4
	VMOVUPD    Y4, (DI)
	ADDQ       $32, DI
	LEAQ       (SI)(R8*4), SI
	DECQ       CX
	JNZ        mulGroup
	VZEROUPPER
	RET

// func addRows(dst, a, w *float64, groups, d int)
//
// dst gets added groups·4 rows of d numbers, each w times, groups > 0, d > 0.
TEXT ·addRows(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ w+16(FP), DX
	MOVQ groups+24(FP), CX
	MOVQ d+32(FP), BX
	TAIL
	LEAQ (DI)(R8*1), R14
	SUBQ AX, R14                // those columns of dst stay in Y14
	VMASKMOVPD (R14), Y15, Y14

addGroup:
	FOUR
	MOVQ         DI, AX
	VBROADCASTSD (DX), Y0       // their weights
	VBROADCASTSD 8(DX), Y1
	VBROADCASTSD 16(DX), Y2
	VBROADCASTSD 24(DX), Y3
	MOVQ         BX, R9         // columns left
	SUBQ         $8, R9
	JLT          addFour

addEight:
	VMOVUPD     (AX), Y4
	VMOVUPD     32(AX), Y5
	SCALED(0, Y4)
	SCALED(32, Y5)
	VMOVUPD     Y4, (AX)
	VMOVUPD     Y5, 32(AX)
	STEP(64)
	SUBQ        $8, R9
	JGE         addEight

addFour:
	TESTQ       $4, R9
	JZ          addTail
	VMOVUPD     (AX), Y4
	SCALED(0, Y4)
	VMOVUPD     Y4, (AX)
	ADDQ        $32, R10
	ADDQ        $32, R11
	ADDQ        $32, R12
	ADDQ        $32, R13

addTail:
	TESTQ       $3, R9
	JZ          addNext
	ROWS
	VFMADD231PD Y5, Y0, Y14
	VFMADD231PD Y6, Y1, Y14
	VFMADD231PD Y7, Y2, Y14
	VFMADD231PD Y12, Y3, Y14

addNext:
	ADDQ $32, DX
	LEAQ (SI)(R8*4), SI
	DECQ CX
	JNZ  addGroup
	VMASKMOVPD Y14, Y15, (R14)
	VZEROUPPER
	RET

// func addTile4(h, left, right, w *float64, m, stride, rows int)
//
// Adds Σ w·l'r to a tile of h of up to 4 rows and 8 columns, l being 4 numbers and r 8 of each
// of m rows, m > 0. All rows are stride numbers apart.
TEXT ·addTile4(SB), NOSPLIT, $0-56
	MOVQ h+0(FP), DI
	MOVQ left+8(FP), SI
	MOVQ right+16(FP), DX
	MOVQ w+24(FP), R9
	MOVQ m+32(FP), CX
	MOVQ stride+40(FP), R8
	MOVQ rows+48(FP), BX
	SHLQ $3, R8
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7

tile4Row:
	VBROADCASTSD (R9), Y9
	VMULPD       (DX), Y9, Y8
	VMULPD       32(DX), Y9, Y9
	OUTER4(0, Y0, Y1)
	OUTER4(8, Y2, Y3)
	OUTER4(16, Y4, Y5)
	OUTER4(24, Y6, Y7)
	ADDQ         $8, R9
	ADDQ         R8, SI
	ADDQ         R8, DX
	DECQ         CX
	JNZ          tile4Row
	TILE4(Y0, Y1, tile4Done)
	TILE4(Y2, Y3, tile4Done)
	TILE4(Y4, Y5, tile4Done)
	TILE4(Y6, Y7, tile4Done)

tile4Done:
	VZEROUPPER
	RET

// func addTile8(h, left, right, w *float64, m, stride, rows int)
//
// The same for a tile of up to 8 rows, with AVX-512.
TEXT ·addTile8(SB), NOSPLIT, $0-56
	MOVQ h+0(FP), DI
	MOVQ left+8(FP), SI
	MOVQ right+16(FP), DX
	MOVQ w+24(FP), R9
	MOVQ m+32(FP), CX
	MOVQ stride+40(FP), R8
	MOVQ rows+48(FP), BX
	SHLQ $3, R8
	VPXORQ Z0, Z0, Z0
	VPXORQ Z1, Z1, Z1
	VPXORQ Z2, Z2, Z2
	VPXORQ Z3, Z3, Z3
	VPXORQ Z4, Z4, Z4
	VPXORQ Z5, Z5, Z5
	VPXORQ Z6, Z6, Z6
	VPXORQ Z7, Z7, Z7

tile8Row:
	VBROADCASTSD     (R9), Z8
	VMULPD           (DX), Z8, Z8
	VFMADD231PD.BCST (SI), Z8, Z0
	VFMADD231PD.BCST 8(SI), Z8, Z1
	VFMADD231PD.BCST 16(SI), Z8, Z2
	VFMADD231PD.BCST 24(SI), Z8, Z3
	VFMADD231PD.BCST 32(SI), Z8, Z4
	VFMADD231PD.BCST 40(SI), Z8, Z5
	VFMADD231PD.BCST 48(SI), Z8, Z6
	VFMADD231PD.BCST 56(SI), Z8, Z7
	ADDQ             $8, R9
	ADDQ             R8, SI
	ADDQ             R8, DX
	DECQ             CX
	JNZ              tile8Row
	TILE8(Z0, tile8Done)
	TILE8(Z1, tile8Done)
	TILE8(Z2, tile8Done)
	TILE8(Z3, tile8Done)
	TILE8(Z4, tile8Done)
	TILE8(Z5, tile8Done)
	TILE8(Z6, tile8Done)
	TILE8(Z7, tile8Done)

tile8Done:
	VZEROUPPER
	RET

// SUM sets s = a + b, rounded, and e = a + b − s: num.TwoSum.
#define SUM(a, b, s, e, t) \
	VADDPD b, a, s; \
	VSUBPD a, s, t; \
	VSUBPD t, s, e; \
	VSUBPD e, a, e; \
	VSUBPD t, b, t; \
	VADDPD t, e, e

// ADD adds the product p with its error e to h + l.
#define ADD(h, l, p, e) \
	SUM(h, p, Y12, Y13, Y14); \
	VADDPD  e, Y13, e; \
	VADDPD  e, l, l; \
	VMOVAPD Y12, h

// MUL adds the products of Y8 and Y9 to h + l.
#define MUL(h, l) \
	VMULPD      Y8, Y9, Y10; \
	VMOVAPD     Y10, Y11; \
	VFMSUB231PD Y8, Y9, Y11; \
	ADD(h, l, Y10, Y11)

// func mulRows2(u, ul, a, x *float64, groups, d int)
//
// u + ul gets the products with x of groups·4 rows of d numbers, groups > 0, d > 0.
TEXT ·mulRows2(SB), NOSPLIT, $0-48
	MOVQ u+0(FP), DI
	MOVQ ul+8(FP), R14
	MOVQ a+16(FP), SI
	MOVQ x+24(FP), DX
	MOVQ groups+32(FP), CX
	MOVQ d+40(FP), BX
	TAIL

mul2Group:
	FOUR
	MOVQ   DX, AX
	VXORPD Y0, Y0, Y0           // h of the rows
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4           // l of the rows
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	MOVQ   BX, R9               // columns left
	SUBQ   $4, R9
	JLT    mul2Tail

mul2Four:
	VMOVUPD (AX), Y8
	VMOVUPD (R10), Y9
	MUL(Y0, Y4)
	VMOVUPD (R11), Y9
	MUL(Y1, Y5)
	VMOVUPD (R12), Y9
	MUL(Y2, Y6)
	VMOVUPD (R13), Y9
	MUL(Y3, Y7)
	STEP(32)
	SUBQ    $4, R9
	JGE     mul2Four

mul2Tail:
	TESTQ      $3, R9
	JZ         mul2Sum
	VMASKMOVPD (AX), Y15, Y8
	VMASKMOVPD (R10), Y15, Y9
	MUL(Y0, Y4)
	VMASKMOVPD (R11), Y15, Y9
	MUL(Y1, Y5)
	VMASKMOVPD (R12), Y15, Y9
	MUL(Y2, Y6)
	VMASKMOVPD (R13), Y15, Y9
	MUL(Y3, Y7)

mul2Sum:
	VHADDPD    Y5, Y4, Y4       // l of the rows, added up
	VHADDPD    Y7, Y6, Y6
	VPERM2F128 $0x20, Y6, Y4, Y5
	VPERM2F128 $0x31, Y6, Y4, Y7
	VADDPD     Y7, Y5, Y4
	VUNPCKLPD  Y1, Y0, Y8       // h, a vector of rows for each lane
	VUNPCKHPD  Y1, Y0, Y9
	VUNPCKLPD  Y3, Y2, Y10
	VUNPCKHPD  Y3, Y2, Y11
	VPERM2F128 $0x20, Y10, Y8, Y0
	VPERM2F128 $0x20, Y11, Y9, Y1
	VPERM2F128 $0x31, Y10, Y8, Y2
	VPERM2F128 $0x31, Y11, Y9, Y3
	SUM(Y0, Y1, Y8, Y9, Y5)
	SUM(Y2, Y3, Y10, Y11, Y5)
	SUM(Y8, Y10, Y0, Y1, Y5)
	VADDPD     Y11, Y9, Y9
	VADDPD     Y1, Y9, Y9
	VADDPD     Y9, Y4, Y4
	SUM(Y0, Y4, Y1, Y2, Y5)
	VMOVUPD    Y1, (DI)
	VMOVUPD    Y2, (R14)
	ADDQ       $32, DI
	ADDQ       $32, R14
	LEAQ       (SI)(R8*4), SI
	DECQ       CX
	JNZ        mul2Group
	VZEROUPPER
	RET

// MULW adds a·(Y6+Y7) to h + l, and changes a.
#define MULW(h, l, a) \
	VMULPD      Y6, a, Y10; \
	VMOVAPD     Y10, Y11; \
	VFMSUB231PD Y6, a, Y11; \
	VFMADD231PD Y7, a, Y11; \
	ADD(h, l, Y10, Y11)

// TOTAL adds h + l to Y8 + Y9: num.Add2.
#define TOTAL(h, l) \
	SUM(Y8, h, Y10, Y11, Y12); \
	VADDPD l, Y9, Y9; \
	VADDPD Y9, Y11, Y11; \
	SUM(Y10, Y11, Y8, Y9, Y12)

// func addRows2(hi, lo, a, w, wl *float64, m, d int)
//
// hi + lo gets added m rows of d numbers, each w + wl times, m > 0, d > 0.
TEXT ·addRows2(SB), NOSPLIT, $0-56
	MOVQ hi+0(FP), DI
	MOVQ lo+8(FP), R14
	MOVQ a+16(FP), SI
	MOVQ w+24(FP), DX
	MOVQ wl+32(FP), R13
	MOVQ m+40(FP), CX
	MOVQ d+48(FP), BX
	LEAQ (BX*8), R8             // bytes of a row
	SUBQ $8, BX                 // columns left, 8 too small
	JLT  add2Four

add2Eight:
	MOVQ   SI, R10
	XORQ   AX, AX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

add2EightRow:
	VBROADCASTSD (DX)(AX*8), Y6
	VBROADCASTSD (R13)(AX*8), Y7
	VMOVUPD      (R10), Y8
	VMOVUPD      32(R10), Y9
	MULW(Y0, Y1, Y8)
	MULW(Y2, Y3, Y9)
	ADDQ    R8, R10
	INCQ    AX
	CMPQ    AX, CX
	JLT     add2EightRow
	VMOVUPD (DI), Y8
	VMOVUPD (R14), Y9
	TOTAL(Y0, Y1)
	VMOVUPD Y8, (DI)
	VMOVUPD Y9, (R14)
	VMOVUPD 32(DI), Y8
	VMOVUPD 32(R14), Y9
	TOTAL(Y2, Y3)
	VMOVUPD Y8, 32(DI)
	VMOVUPD Y9, 32(R14)
	ADDQ    $64, SI
	ADDQ    $64, DI
	ADDQ    $64, R14
	SUBQ    $8, BX
	JGE     add2Eight

add2Four:
	LEAQ    ·tails(SB), R9      // all four lanes
	VMOVUPD (R9), Y15
	MOVQ    $32, R11
	TESTQ   $4, BX              // BX is 8 too small, which bits 0 to 2 do not show
	JNZ     add2Some

add2Tail:
	MOVQ BX, AX
	ANDQ $3, AX
	JZ   add2Done
	SHLQ $3, AX
	LEAQ ·tails+32(SB), R9
	SUBQ AX, R9
	VMOVUPD (R9), Y15           // lanes of the last d mod 4 columns
	XORQ R11, R11               // none come after them

add2Some:
	MOVQ   SI, R10
	XORQ   AX, AX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1

add2SomeRow:
	VBROADCASTSD (DX)(AX*8), Y6
	VBROADCASTSD (R13)(AX*8), Y7
	VMASKMOVPD   (R10), Y15, Y8
	MULW(Y0, Y1, Y8)
	ADDQ       R8, R10
	INCQ       AX
	CMPQ       AX, CX
	JLT        add2SomeRow
	VMASKMOVPD (DI), Y15, Y8
	VMASKMOVPD (R14), Y15, Y9
	TOTAL(Y0, Y1)
	VMASKMOVPD Y8, Y15, (DI)
	VMASKMOVPD Y9, Y15, (R14)
	ADDQ       R11, SI
	ADDQ       R11, DI
	ADDQ       R11, R14
	TESTQ      R11, R11
	JNZ        add2Tail

add2Done:
	VZEROUPPER
	RET

// func cpuid(leaf, sub uint32) (a, b, c, d uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	MOVL DX, d+20(FP)
	RET

// func xgetbv() (low uint32)
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, low+0(FP)
	RET
