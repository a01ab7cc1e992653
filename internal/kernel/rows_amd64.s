//go:build amd64 && !goexperiment.simd && !noasm && !gccgo && !safe && !purego

#include "textflag.h"

// Four lanes on, four off: the mask of the first k lanes starts k words before the middle.
DATA ·tails+0(SB)/8, $-1
DATA ·tails+8(SB)/8, $-1
DATA ·tails+16(SB)/8, $-1
DATA ·tails+24(SB)/8, $-1
GLOBL ·tails(SB), RODATA|NOPTR, $64

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
	LEAQ (BX*8), R8             // bytes of a row
	MOVQ BX, AX
	ANDQ $3, AX
	SHLQ $3, AX
	LEAQ ·tails+32(SB), R9
	SUBQ AX, R9
	VMOVUPD (R9), Y15           // lanes of the last d mod 4 columns

mulGroup:
	MOVQ   SI, R10              // four rows
	LEAQ   (SI)(R8*1), R11
	LEAQ   (SI)(R8*2), R12
	LEAQ   (R11)(R8*2), R13
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
	LEAQ (BX*8), R8             // bytes of a row
	MOVQ BX, AX
	ANDQ $3, AX
	SHLQ $3, AX
	LEAQ ·tails+32(SB), R9
	SUBQ AX, R9
	VMOVUPD (R9), Y15           // lanes of the last d mod 4 columns
	LEAQ (DI)(R8*1), R14
	SUBQ AX, R14                // those columns of dst stay in Y14
	VMASKMOVPD (R14), Y15, Y14

addGroup:
	MOVQ         SI, R10        // four rows
	LEAQ         (SI)(R8*1), R11
	LEAQ         (SI)(R8*2), R12
	LEAQ         (R11)(R8*2), R13
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
