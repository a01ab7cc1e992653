package experiment

import (
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/qop"
)

var inf = math.Inf(1)

// detail holds the numbers of one cell that the summary reports beside its risk.
type scalingDetail struct {
	Certificate *dp.Certificate `json:"certificate,omitempty"`

	// Linear perturbation.
	Sigma *float64 `json:"sigma,omitempty"` // σ of every coordinate of b
	Rate  *float64 `json:"rate,omitempty"`  // of ‖b‖ for a pure guarantee
	Ridge *float64 `json:"delta_ridge,omitempty"`
	Clip  float64  `json:"clip,omitempty"`

	// Quadratic perturbation.
	Sigma2    *float64 `json:"sigma2,omitempty"`
	M         *float64 `json:"m,omitempty"`
	Curvature *float64 `json:"sigma2_m,omitempty"`
	Eta       float64  `json:"eta,omitempty"`

	// The covered release.
	Cover       *float64 `json:"cover,omitempty"`
	OutputSigma *float64 `json:"output_sigma,omitempty"`
	// RelativeGap is the largest bound on (J(θ̂) − min J)/max(1, |J(θ̂)|) that the
	// solves of the cell were certified to. Not private.
	RelativeGap *float64 `json:"relative_gap,omitempty"`

	// PredictedExcess bounds E J(θ)/n − J(θ₀)/n, J the risk's sum plus λ‖θ‖₁, from public quantities;
	// MeasuredExcess is its mean over the runs. θ₀ is the point of the method named Comparator. For
	// lop-clip J is that of the clipped loss.
	PredictedExcess *float64 `json:"predicted_excess,omitempty"`
	MeasuredExcess  *float64 `json:"measured_excess,omitempty"`
	Comparator      string   `json:"comparator,omitempty"`

	// Published constants of -mode paper, in the notation of package lasso.
	Published *constants `json:"published,omitempty"`
	// Outside counts the runs whose reported point lies outside the box.
	Outside int `json:"outside_box,omitempty"`
}

// constants are the numbers that the published curves do not show.
type constants struct {
	L      *float64 `json:"L,omitempty"`
	Delta  *float64 `json:"Delta,omitempty"`
	Zeta   *float64 `json:"zeta,omitempty"`
	S      *float64 `json:"s,omitempty"`
	Omega  *float64 `json:"omega,omitempty"`
	Alpha  *float64 `json:"alpha,omitempty"`
	Alpha1 *float64 `json:"alpha1,omitempty"` // absent where the equation has no solution
	F2     *float64 `json:"f2,omitempty"`
	Sigma2 *float64 `json:"sigma2,omitempty"`
	M      *float64 `json:"m,omitempty"`
	// OmegaEdge is ω of qop at λ_max(W) = (√m + √d)²; each run has that of its W.
	OmegaEdge *float64 `json:"omega_at_edge,omitempty"`
}

// finite returns x for JSON, nil if x is infinite or NaN.
func finite(x float64) *float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}

// positive is finite for numbers whose zero means "not used".
func positive(x float64) *float64 {
	if x == 0 {
		return nil
	}
	return finite(x)
}

// value is the inverse of finite, +Inf for nil.
func value(x *float64) float64 {
	if x == nil {
		return inf
	}
	return *x
}

// certify records the accuracy of one solve.
func (d *scalingDetail) certify(gap, objective float64) {
	gap /= math.Max(1, math.Abs(objective))
	if d.RelativeGap == nil || !(gap <= *d.RelativeGap) {
		d.RelativeGap = finite(gap)
	}
}

func (d *scalingDetail) linear(p lop.Params) {
	d.Sigma, d.Rate, d.Ridge = positive(p.Sigma), positive(p.Rate), finite(p.Ridge)
	d.Cover, d.OutputSigma = finite(p.Cover), positive(p.OutputSigma)
	d.PredictedExcess = finite(p.ExcessBound)
}

// quadratic fills in the constants and, for a comparator at distance D from θ*,
// the bound σ²m(D+η)²/2 + nLdσ̃²/2 + λdσ̃, λ√d the Lipschitz constant of λ‖θ‖₁.
func (d *scalingDetail) quadratic(p qop.Params, distance, lambda float64) {
	d.Sigma2, d.M, d.Curvature, d.Eta = finite(p.Sigma2), finite(p.Degrees), finite(p.Curvature), p.Eta
	d.Cover, d.OutputSigma = finite(p.Cover), positive(p.OutputSigma)
	dim, noise := float64(p.Dim), p.OutputSigma
	reach := distance + p.Eta
	d.PredictedExcess = finite(p.Curvature*reach*reach/2 + float64(p.Records)*dim*p.Constants.Smoothness*noise*noise/2 + lambda*dim*noise)
}

func (d *scalingDetail) published(e *lasso.Experiment, q qop.PublishedConstants, m lasso.Method, kappa float64) {
	if m != lasso.QOP {
		c := e.Linear(m, kappa)
		d.Published = &constants{L: finite(e.L()), Delta: finite(c.Ridge), Zeta: finite(c.Zeta), S: finite(c.Noise), Omega: finite(c.Omega)}
		return
	}
	root := math.Sqrt(e.Dof()) + math.Sqrt(e.Dof()/2) // m = 2d
	d.Published = &constants{L: finite(e.L()), Alpha: finite(q.Alpha), Alpha1: finite(q.Alpha1), F2: finite(q.F2),
		Sigma2: finite(q.Sigma2), M: finite(e.Dof()), OmegaEdge: finite(e.Omega(root * root))}
}
