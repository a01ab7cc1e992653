// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package erm holds records inside declared bounds, their regularized risk, and its linear and
// quadratic perturbations.
//
//	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1}) // ‖a‖ ≤ 1, |b| ≤ 1
//	p := &erm.Problem{Data: data, Loss: loss.Logistic{}, Set: prox.L2Ball{R: 10}}
//
// [NewData] and its relatives take records and declared bounds and return [Data]. A [Problem] adds
// a loss, a regularizer and a set. [Problem.Perturb] returns the perturbed risk as an [Objective],
// which the solvers of package splitting minimize; [Objective.Residual] bounds the distance of a
// point to the minimizer. [Problem.Public] returns the declared quantities of a problem, from which
// mechanisms calibrate noise.
//
// Everything computed from records is private: only a dp.Release may leave the trust boundary. Data
// prints as its dimensions.
//
// # Order of records
//
// Data keeps records in a canonical order of their content. A sum over the records consists of sums
// of 512 consecutive records, in float64 or in double-double, which are added without rounding. All
// values are therefore functions of the multiset of records: no bit depends on the order of the
// input, on the number of shards it came in or on the number of threads. Records that do not fit
// into memory stay in a [Source], in its order; see [Open]. Other machines may compute sums over
// its parts; see [Remote].
//
// Replacing one record may move others, so the rounding of a sum differs between neighboring data
// sets. No release rests on rounded sums. It rests on the bound of [Objective.Residual] on the
// distance to the exact minimizer, which includes an allowance for rounding in any order of the
// records, and the noise is calibrated to it. With gradients of at most L and predictions of at
// most U, the allowance is about 2⁻⁸⁷·n(L + βU/Row) + 2⁻⁹⁷(‖b‖ + ‖Q(x−θ̃)‖) for a loss with
// [loss.Exact] slopes, which is negligible for any number of records. For other losses the first
// factor is 2⁻⁴⁸.
//
// # Notation
//
//	n, d          records, parameters
//	(aᵢ, bᵢ)      record i: row and label, forced into the declared bounds
//	F(θ)          Σᵢ ℓ(θ;aᵢ,bᵢ), a sum, not a mean
//	r, C          Problem.Reg, Problem.Set
//	J(θ)          F(θ) + ⟨b,θ⟩ + ½(θ−θ̃)'Q(θ−θ̃) + r(θ) + ι_C(θ)
//	b, Q, θ̃       Perturbation.Linear, Quad, Center
//	u             2⁻⁵³, the unit roundoff of float64
//
// Functions that compute with vectors panic if lengths do not match, as those of gonum do.
// Constructors and functions that return an error report it.
//
// # References
//
//	[CMS11]  Chaudhuri, Monteleoni, Sarwate. Differentially Private Empirical
//	         Risk Minimization. JMLR 2011.
//	[KST12]  Kifer, Smith, Thakurta. Private Convex Empirical Risk
//	         Minimization and High-dimensional Regression. COLT 2012.
package erm

import (
	"fmt"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/prefix"
)

// Errors of this package. Their texts name public quantities only: fields, dimensions and
// positions, never a value of a record.
var (
	// ErrData reports data whose public shape is wrong.
	ErrData = prefix.New("erm: invalid data")
	// ErrProblem reports a [Problem] whose parts do not fit together.
	ErrProblem = prefix.New("erm: invalid problem")
	// ErrSource reports that records could not be read, or were not the same in every pass. Then no
	// release is made, but its budget is spent.
	ErrSource = prefix.New("erm: the source of the records failed")
)

// Messages of panics on bugs in the call.
const (
	badLen     = "erm: length mismatch"
	badIndex   = "erm: record out of range"
	badProblem = "erm: Perturb of a Problem that fails Check"
	badLoss    = "erm: Hessian needs a loss.Linear"
	badError   = "erm: Perturbation.LinearError or QuadError is not a number of at least 0"
	badHessian = "erm: Hessian dst is neither empty nor of the dimension"
	badRounded = "erm: SumRounded needs 1 ≤ norm ≤ 2⁵¹ and |exponent| ≤ 900"
	badPair    = "erm: pairs need a loss.Linear and an r + ι_C that is a sum over coordinates"
)

// unit is the unit roundoff u of float64.
const unit = num.Unit

// secret is embedded by types that hold noise or functions of records in exported fields or behind
// pointers. fmt writes no field of such a type, and encoders of JSON, XML and gob fail.
type secret struct{}

// errSecret is the error of encoders.
var errSecret = prefix.New("erm: noise and functions of the records are not encoded; read the fields that you need")

// Format writes the same text for every verb.
func (secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, secret{}.String()) }

// String returns the text that Format writes.
func (secret) String() string {
	return "erm: not printed, because it is noise or a function of the records"
}

// MarshalText always fails: JSON and XML use it.
func (secret) MarshalText() ([]byte, error) { return nil, errSecret }

// MarshalBinary always fails: gob uses it.
func (secret) MarshalBinary() ([]byte, error) { return nil, errSecret }
