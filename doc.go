// Package privopt is the root of a toolkit for differentially private
// optimization: minimizers of regularized losses over records that must not
// leak.
//
// A mechanism calibrates a perturbation, a solver minimizes the perturbed risk,
// and a certificate says what the release cost. Start with packages lop and
// qop for the mechanisms, splitting and prox for the solvers, and dp for
// budgets and certificates.
package privopt
