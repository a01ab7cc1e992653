// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package lop is the engine of the public package lop: it calibrates and releases minimizers of
// linearly perturbed risks. Packages lop, sco and model call it: the first two for one release
// under a theorem of package lop, the last for the steps of a sequence whose certificate it proves
// itself.
//
// Package linear has the mathematics of the perturbation, package release the way out of the trust
// boundary. Letters are those of docs/theory/README.md, and B is Settings.Radius.
package lop

import (
	"cmp"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// ErrMechanism reports a field of Settings outside its range, or an empty Plan.
var ErrMechanism = linear.ErrProblem

// Settings say which perturbation is wanted. Fields that a mechanism of package lop has as well are
// documented there; zero values mean the defaults.
type Settings struct {
	Relation    dp.Relation
	Calibration linear.Calibration
	Ridge       float64
	Center      []float64
	Radius      float64
	Clip        float64
	Cover       float64
	Share       float64
	Trace       func(erm.Trace)

	// Package is the name that errors begin with.
	Package string
	// Output asks for output perturbation: no b, all noise on the minimizer.
	Output bool
	// Population makes ExcessBound a bound on the expected excess population loss in mean form:
	// E‖b‖² counts 4nL² more, and the output noise is included.
	Population bool
	// LeastSigma is a lower bound on σ, for published constants.
	LeastSigma float64
	// Method, if not nil, returns the solver that a fit tries first, or nil.
	Method func(Params) release.Method

	variance float64 // of linear.Bound
}

// Params has the fields of lop.Params, where they are documented.
type Params struct {
	Theorem                        string
	Relation                       dp.Relation
	Budget                         dp.Budget
	Dim, Records, Rows             int
	MaxRecords                     int64
	Lipschitz, Smoothness, Modulus float64
	Radius, Clip                   float64
	Ridge, Sigma, Rate             float64
	Curvature, Shift               float64
	Cover, Grid, Sensitivity       float64
	OutputSigma, OutputRate        float64
	ExcessBound                    float64
}

// bound returns the bound on the excess risk that the automatic Δ minimizes.
func (s Settings) bound() linear.Bound { return linear.Bound{Radius: s.Radius, Variance: s.variance} }

// mark returns err with the name of the package, nil for nil.
func (s Settings) mark(err error) error {
	if err == nil {
		return nil
	}
	return prefix.Of(s.Package, fmt.Errorf("%s: %w", s.Package, err))
}

// prepare returns p, with its loss clipped if Clip is set, and its public quantities. It reads no
// record.
func (s Settings) prepare(p *erm.Problem) (*erm.Problem, erm.Public, error) {
	if s.Clip > 0 && p != nil && p.Loss != nil {
		l, err := loss.NewClipped(p.Loss, s.Clip)
		if err != nil {
			return nil, erm.Public{}, fmt.Errorf("%w: Clip: %w", dp.ErrCondition, err)
		}
		q := *p
		q.Loss = l
		p = &q
	}
	q, err := p.Public(s.relation())
	return p, q, err
}

func (s Settings) relation() dp.Relation { return cmp.Or(s.Relation, dp.Replace) }

// mostCoordinate keeps the squares of norms finite.
const mostCoordinate = 1e150

// checkCenter refuses a Center that is no point of dim finite coordinates.
func (s Settings) checkCenter(dim int) error {
	if s.Center != nil && len(s.Center) != dim {
		return fmt.Errorf("%w: Center has %d coordinates, the problem %d: want one for each parameter, or nil for the origin",
			ErrMechanism, len(s.Center), dim)
	}
	for i, v := range s.Center {
		if !(math.Abs(v) <= mostCoordinate) {
			return fmt.Errorf("%w: Center[%d] = %v, want a number of magnitude at most %g", ErrMechanism, i, v, mostCoordinate)
		}
	}
	return nil
}

// anchor returns an upper bound on the norm of Center.
func (s Settings) anchor() float64 {
	return blas64.Nrm2(blas64.Vector{N: len(s.Center), Data: s.Center, Inc: 1}) * (1 + float64(len(s.Center)+2)*0x1p-52)
}

// check refuses fields outside their ranges.
func (s Settings) check() error {
	for _, f := range []struct {
		name, zero string
		value      float64
	}{{"Ridge", "automatic", s.Ridge}, {"Radius", "the radius of Set", s.Radius}, {"Clip", "no clipping", s.Clip},
		{"Cover", "the default", s.Cover}, {"Share", "the default", s.Share}} {
		if err := release.CheckField(ErrMechanism, f.name, f.zero, f.value); err != nil {
			return err
		}
	}
	if s.Share >= 1 {
		return fmt.Errorf("%w: Share = %v, want a number in (0, 1), or 0 for the default", ErrMechanism, s.Share)
	}
	return nil
}
