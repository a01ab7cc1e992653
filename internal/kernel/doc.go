// Package kernel holds the inner loops whose speed decides the speed of a
// solve. Every exported function has one definition, its formula, and one
// portable implementation; with GOEXPERIMENT=simd on amd64 some have a second
// one on vector instructions, used where the processor has them. The two agree
// to the rounding that the comment of the function states.
package kernel
