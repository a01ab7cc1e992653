package erm

import (
	"math"
	"slices"
)

// Trace is what one solve found, before output noise. Not private: none of it may be published.
type Trace struct {
	Theta      []float64 // θ̂, before output noise and projection
	Objective  float64   // J(θ̂); NaN until Evaluate
	Residual   float64   // upper bound on dist(0, ∂J) at a point within Distance − Residual/μ of θ̂
	Distance   float64   // ≥ ‖θ̂ − argmin J‖₂
	Gap        float64   // Residual²/(2μ) ≥ J − min J at that point
	Iterations int       // of all methods that ran
	GradTerms  int       // gradients of single records they evaluated
	// Certified tells whether Residual/μ proves Distance; else the number of steps of the descent
	// from a certified distance does.
	Certified bool
}

// NewTrace returns the trace of a point that is within shift of one with the given residual, for a
// μ-strongly convex J. It copies theta.
func NewTrace(theta []float64, residual, shift, mu float64) Trace {
	return Trace{
		Theta: slices.Clone(theta), Objective: math.NaN(),
		Residual: residual, Distance: residual/mu + shift, Gap: residual * residual / mu / 2,
	}
}

// Evaluate fills in J(θ̂), which costs a pass over the records.
func (t *Trace) Evaluate(p *Problem, o *Objective) {
	t.Objective = o.Func(t.Theta)
	if p.Reg != nil {
		t.Objective += p.Reg.Func(t.Theta)
	}
}
