// Package erm holds records inside declared bounds, their regularized risk, and
// its linear and quadratic perturbations.
//
// Everything computed here from records is private: only a dp.Release may leave
// the trust boundary. Data and Objective print as their dimensions.
//
// # Notation
//
//	n, d          records, parameters
//	(aᵢ, bᵢ)      record i: row and label, forced into the declared bounds
//	F(θ)          Σᵢ ℓ(θ;aᵢ,bᵢ), a sum, not a mean
//	r, C          Problem.Reg, Problem.Set
//	J(θ)          F(θ) + ⟨b,θ⟩ + ½(θ−θ̃)'Q(θ−θ̃) + r(θ) + ι_C(θ)
//	b, Q, θ̃       Perturbation.Linear, Quad, Center
//
// # References
//
//	[CMS11]  Chaudhuri, Monteleoni, Sarwate. Differentially Private Empirical
//	         Risk Minimization. JMLR 2011.
//	[KST12]  Kifer, Smith, Thakurta. Private Convex Empirical Risk
//	         Minimization and High-dimensional Regression. COLT 2012.
package erm

import (
	"errors"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Errors of this package. Test with errors.Is. Their texts name public
// quantities only: fields, dimensions and positions, never a value of a record.
var (
	// ErrData reports data whose public shape is wrong.
	ErrData = errors.New("erm: invalid data")
	// ErrProblem reports a Problem whose parts do not fit together.
	ErrProblem = errors.New("erm: invalid problem")
)

// Problem is the regularized risk Σᵢ ℓ(θ;aᵢ,bᵢ) + r(θ) over θ ∈ C.
type Problem struct {
	Data *Data
	Loss loss.Loss
	Reg  prox.Operator // nil means none; must not depend on the records
	Set  prox.Set      // nil means ℝᵈ
}

// Perturbation is the data-independent ⟨Linear,θ⟩ + ½(θ−Center)'Quad(θ−Center).
// A nil field means 0.
//
// It is secret: whoever knows it can take it off a release. It neither prints
// nor encodes its values; only as an unexported field of another struct, where
// fmt calls no methods, would it print.
type Perturbation struct {
	Linear, Center []float64
	// Quad is positive semidefinite. A *mat.DiagDense costs O(d).
	Quad mat.Symmetric
	// MinEig and MaxEig are bounds on the spectrum of Quad that the caller
	// knows, MinEig ≤ λ_min and λ_max ≤ MaxEig; 0 means unknown. They are
	// trusted.
	MinEig, MaxEig float64
}
