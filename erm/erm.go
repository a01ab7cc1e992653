// Package erm holds records inside declared bounds, their regularized risk, and
// its linear and quadratic perturbations.
//
// Everything computed here from records is private: only a dp.Release may leave
// the trust boundary. Data and Objective print as their dimensions.
//
// # Order of records
//
// Data keeps records in a canonical order of their content. Every sum over them is made of the sums
// of 512 consecutive records, in float64 or in twice its precision, and these are added without rounding. All
// values are therefore functions of the multiset of records: the order of the input, the number of
// shards it came in and the number of threads leave no trace in any bit.
//
// Records that memory does not hold stay in a Source, see Open, in the order they have there; sums
// over the parts of a source may be made on other machines, see Remote.
//
// Between neighboring data sets the rounding of such a sum still differs, for
// the one record that was replaced moves others to other places. No release
// rests on the rounded sums: it is a point whose distance to the exact
// minimizer Objective.Residual bounds, with an allowance for rounding that
// holds for any order of the records, and the noise on the released point is
// calibrated to that bound. For a loss that has loss.Exact it is of the order of
//
//	2⁻⁸⁷·n(L + βU/Row) + 2⁻⁹⁷(‖b‖ + ‖Q(x−θ̃)‖),
//
// with gradients of at most L and predictions of at most U at the released point, which
// no number of records makes count; for other losses the factor of the first term is 2⁻⁴⁸.
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
// # Lengths
//
// Functions that compute with vectors panic where lengths do not match, as those of gonum do: that is
// a mistake in the program. Constructors, and functions that return an error, report it.
//
// # References
//
//	[CMS11]  Chaudhuri, Monteleoni, Sarwate. Differentially Private Empirical
//	         Risk Minimization. JMLR 2011.
//	[KST12]  Kifer, Smith, Thakurta. Private Convex Empirical Risk
//	         Minimization and High-dimensional Regression. COLT 2012.
package erm

import (
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Errors of this package. Test with errors.Is. Their texts name public
// quantities only: fields, dimensions and positions, never a value of a record.
var (
	// ErrData reports data whose public shape is wrong.
	ErrData = prefix.New("erm: invalid data")
	// ErrProblem reports a Problem whose parts do not fit together.
	ErrProblem = prefix.New("erm: invalid problem")
)

// Problem is the regularized risk Σᵢ ℓ(θ;aᵢ,bᵢ) + r(θ) over θ ∈ C.
type Problem struct {
	Data *Data
	Loss loss.Loss
	Reg  prox.Operator // nil means none; must not depend on the records
	Set  prox.Set      // nil means ℝᵈ
	// Records is the declared, public number n₀ of records for dp.AddRemove, where n is private; 0
	// means not declared. Noise that weighs against n is tuned for it, and four times as many are
	// the most for which rounding is accounted. Under dp.Replace it is not looked at.
	Records int
	// Threads is the most goroutines that one sum over the records uses; 0
	// means GOMAXPROCS. Small sums use one. No bit of any value depends on it.
	Threads int
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
	// LinearError and QuadError bound ‖b − Linear‖₂ and ‖Q − Quad‖₂, where b and Q are the real
	// numbers that a privacy theorem is about and Linear and Quad their floats. Residual counts
	// them, so that it is about b and Q; Convexity and Modulus subtract QuadError. Labels that
	// were computed, as those of an interpolating Problem are, move the gradient too: with labels
	// within ηᵢ of the real ones, by at most Σᵢβᵢηᵢ/‖aᵢ‖, which belongs in LinearError.
	LinearError, QuadError float64
}
