//go:build amd64 && !goexperiment.simd && !noasm && !gccgo && !safe && !purego

#include "textflag.h"

// SUM sets s = a + b, rounded, and e = a + b − s: twofold.Sum.
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
	LEAQ (BX*8), R8             // bytes of a row
	MOVQ BX, AX
	ANDQ $3, AX
	SHLQ $3, AX
	LEAQ ·tails+32(SB), R9
	SUBQ AX, R9
	VMOVUPD (R9), Y15           // lanes of the last d mod 4 columns

mul2Group:
	MOVQ   SI, R10              // four rows
	LEAQ   (SI)(R8*1), R11
	LEAQ   (SI)(R8*2), R12
	LEAQ   (R11)(R8*2), R13
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
	ADDQ    $32, AX
	ADDQ    $32, R10
	ADDQ    $32, R11
	ADDQ    $32, R12
	ADDQ    $32, R13
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

// TOTAL adds h + l to Y8 + Y9: twofold.Add.
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
