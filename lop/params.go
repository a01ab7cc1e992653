package lop

import "github.com/privopt/privopt/dp"

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
