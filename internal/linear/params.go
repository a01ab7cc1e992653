package linear

import (
	"cmp"
	"fmt"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// Settings are the public choices of a mechanism; zero values mean automatic.
type Settings struct {
	Package     string      // prefix of theorems and errors: the mechanism's package
	Relation    dp.Relation // 0 means dp.Replace
	Calibration Calibration
	Output      bool    // output perturbation: no b, all noise on the minimizer
	Ridge       float64 // Δ
	LeastSigma  float64 // σ is at least this; for published constants
	Bound       Bound   // on the risk, for automatic Δ and Params.ExcessBound
	// Population asks for the excess population loss in mean form: Bound.Variance
	// becomes 4nL², and the cost of the output noise is included.
	Population bool
	Clip       float64 // the threshold that gradients are clipped at, 0 for none
	Cover      float64 // R
	Share      float64 // of the budget, for the output noise
	Trace      func(erm.Trace)
	// Method, if not nil, returns a solver that is tried before those of package
	// release, or nil.
	Method func(Params) release.Method
}

// Params are the numbers of a calibrated plan. They are public and say all that
// is needed to repeat a release but for its random bits and the records.
type Params struct {
	Theorem    string      `json:"theorem"`
	Relation   dp.Relation `json:"relation"`
	Budget     dp.Budget   `json:"budget"` // of the whole release
	Dim        int         `json:"dim"`
	Records    int         `json:"records,omitempty"` // n under Replace, else the declared number
	MaxRecords int64       `json:"maxRecords"`        // the most records of a data set
	Lipschitz  float64     `json:"lipschitz"`         // L of one record's loss
	Smoothness float64     `json:"smoothness"`        // β of one record's loss
	Modulus    float64     `json:"modulus"`           // μ_r of the regularizer
	Radius     float64     `json:"radius,omitempty"`  // B, the size of the solution that Ridge is tuned for
	Clip       float64     `json:"clip,omitempty"`    // threshold of the gradients of one record

	// The perturbation ⟨b,θ⟩ + (Δ/2)‖θ‖².
	Ridge float64 `json:"ridge"`           // Δ
	Sigma float64 `json:"sigma,omitempty"` // standard deviation σ of every coordinate of b; 0 unless Gaussian
	Rate  float64 `json:"rate,omitempty"`  // a in the density ∝ exp(−a‖b‖₂) of b; 0 unless pure
	C     float64 `json:"c,omitempty"`     // c, the most that curvature costs of ε
	S     float64 `json:"s,omitempty"`     // s = G/σ, for output perturbation Sensitivity/OutputSigma; 0 unless Gaussian

	// The covered release: θ̂ within Cover of the minimizer, rounded to multiples of
	// Grid, plus integer noise.
	Cover       float64 `json:"cover"`                 // R
	Grid        float64 `json:"grid"`                  // g, a power of two
	Sensitivity float64 `json:"sensitivity"`           // what the output noise hides
	OutputSigma float64 `json:"outputSigma,omitempty"` // standard deviation of the output noise; 0 if pure
	OutputRate  float64 `json:"outputRate,omitempty"`  // rate of the output noise; 0 unless pure

	// ExcessBound is a bound on the expected excess risk against the best θ₀ with
	// ‖θ₀‖₂ ≤ Radius; the mechanism says which. +Inf where Radius is not stated.
	ExcessBound float64 `json:"-"`
}

// Prepare returns p with its loss clipped if the settings say so, and what is
// public about it. It looks at no record.
func (s Settings) Prepare(p *erm.Problem) (*erm.Problem, erm.Public, error) {
	if s.Clip > 0 && p != nil && p.Loss != nil {
		l, err := loss.NewClipped(p.Loss, s.Clip)
		if err != nil {
			return nil, erm.Public{}, fmt.Errorf("%s: %w: Clip: %w", s.Package, dp.ErrCondition, err)
		}
		q := *p
		q.Loss = l
		p = &q
	}
	q, err := p.Public(s.relation())
	if err != nil {
		return nil, erm.Public{}, fmt.Errorf("%s: %w", s.Package, err)
	}
	return p, q, nil
}

func (s Settings) relation() dp.Relation { return cmp.Or(s.Relation, dp.Replace) }

// Check refuses numbers that make no sense by themselves.
func (s Settings) Check() error {
	if err := cmp.Or(
		release.CheckField(ErrProblem, "Ridge", "automatic", s.Ridge),
		release.CheckField(ErrProblem, "Radius", "the radius of Set", s.Bound.Radius),
		release.CheckField(ErrProblem, "Clip", "no clipping", s.Clip),
		release.CheckField(ErrProblem, "Cover", "the default", s.Cover),
		release.CheckField(ErrProblem, "Share", "the default", s.Share),
	); err != nil {
		return err
	}
	if s.Share >= 1 {
		return fmt.Errorf("%w: Share = %v, want a number in (0, 1), or 0 for the default", ErrProblem, s.Share)
	}
	return nil
}
