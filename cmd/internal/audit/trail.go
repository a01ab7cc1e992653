package audit

import (
	"math"

	"github.com/privopt/privopt/loss"
)

// trail follows stochastic gradients through the public interfaces of a problem: it is the set of
// the problem, all of ℝᵈ, and sees every iterate; and its losses see every record that is
// evaluated. A record is known by its label, which is one more than its place.
type trail struct {
	points  [][]float64 // where Prox was asked for, first the start
	batches [][]int     // records evaluated before each of the points
	open    []int
}

// Func returns 0.
func (t *trail) Func([]float64) float64 { return 0 }

// Prox is the identity.
func (t *trail) Prox(dst, x []float64, _ float64) {
	copy(dst, x)
	t.points = append(t.points, append([]float64(nil), x...))
	t.batches = append(t.batches, t.open)
	t.open = nil
}

// Radius returns +Inf.
func (t *trail) Radius(int) float64 { return math.Inf(1) }

// tagged is a loss whose records are known by their labels. It declares the
// constants of another one, and lies if that has smaller ones.
type tagged struct {
	loss.Linear
	declared loss.Linear
	bounds   loss.Bounds // of the labels behind the tags
	labels   []float64
	trail    *trail
}

// label returns the label of the record with tag b, 0 for none.
func (l *tagged) label(b float64) float64 {
	if i := int(b) - 1; i >= 0 && i < len(l.labels) {
		return l.labels[i]
	}
	return 0
}

// saw notes the record with tag b.
func (l *tagged) saw(b float64) {
	if b >= 1 {
		l.trail.open = append(l.trail.open, int(b)-1)
	}
}

func (l *tagged) Func(theta, a []float64, b float64) float64 {
	return l.Linear.Func(theta, a, l.label(b))
}

func (l *tagged) Grad(dst, theta, a []float64, b float64) {
	l.saw(b)
	l.Linear.Grad(dst, theta, a, l.label(b))
}

func (l *tagged) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	l.saw(b)
	return l.Linear.Scalar(u, l.label(b), norm)
}

func (l *tagged) Constants(_ loss.Bounds, radius float64) loss.Constants {
	return l.declared.Constants(l.bounds, radius)
}

// taggedHinge is a tagged loss with an envelope in closed form, which is
// evaluated instead of the loss.
type taggedHinge struct{ *tagged }

func (l taggedHinge) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	return l.Linear.Scalar(u, l.label(b), norm)
}

func (l taggedHinge) ProxSlope(u, b, kappa float64) (g, dg float64) {
	l.saw(b)
	return loss.Hinge{}.ProxSlope(u, l.label(b), kappa)
}

var (
	_ loss.Linear     = (*tagged)(nil)
	_ loss.Proximable = taggedHinge{}
)
