// Package kernel holds the inner loops whose speed decides the speed of a
// solve. Every exported function has one definition, its formula, and one
// portable implementation; with GOEXPERIMENT=simd on amd64 some have a second
// one on vector instructions, used where the processor has them. The two agree
// to the rounding that the comment of the function states. The products with
// blocks of rows have a third on amd64, in assembly, and leave their work to a
// BLAS that the program registered. None of the own kernels is built under the
// tags noasm and safe, which turn off gonum's assembly too, and purego.
//
// Each does the parts of a pass on several threads.
package kernel
