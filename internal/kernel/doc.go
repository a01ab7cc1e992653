// Package kernel holds the inner loops whose speed decides the speed of a solve. Every exported
// function has one definition, its formula, and one portable implementation. The products with
// blocks of rows have a second one on amd64, in assembly, which agrees to the rounding that the
// comment of the function states; a BLAS that the program registered takes the place of both.
// The tags noasm, safe and purego leave the assembly out.
//
// Each does the parts of a pass on several threads.
package kernel
