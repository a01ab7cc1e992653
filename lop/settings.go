package lop

import (
	"cmp"
	"fmt"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
)

// Settings are a [Mechanism] for packages that build on it, such as sco: users take Mechanism or
// [Output]. The zero values of the fields make a plain Mechanism.
type Settings struct {
	Mechanism
	// Package is the name that errors begin with; empty means lop.
	Package string
	// Output is output perturbation: no b, all noise on the minimizer.
	Output bool
	// Population asks for the least bound on the expected excess population loss in mean form, which
	// ExcessBound of the plan then is: E‖b‖² counts 4nL² more, and the output noise is included.
	Population bool
	// LeastSigma is a number that σ is no less than, for published constants.
	LeastSigma float64
	// Method, if not nil, returns the solver that is tried first in a fit, or nil.
	Method func(Params) release.Method

	variance float64 // of linear.Bound
}

// bound returns the bound on the excess risk that automatic Δ minimizes.
func (s Settings) bound() linear.Bound { return linear.Bound{Radius: s.Radius, Variance: s.variance} }

// mark returns err with the name of the package.
func (s Settings) mark(err error) error {
	name := cmp.Or(s.Package, "lop")
	return prefix.Of(name, fmt.Errorf("%s: %w", name, err))
}

// prepare returns p with its loss clipped if the settings say so, and what is
// public about it. It looks at no record.
func (s Settings) prepare(p *erm.Problem) (*erm.Problem, erm.Public, error) {
	if s.Clip > 0 && p != nil && p.Loss != nil {
		l, err := loss.NewClipped(p.Loss, s.Clip)
		if err != nil {
			return nil, erm.Public{}, s.mark(fmt.Errorf("%w: Clip: %w", dp.ErrCondition, err))
		}
		q := *p
		q.Loss = l
		p = &q
	}
	q, err := p.Public(s.relation())
	if err != nil {
		return nil, erm.Public{}, s.mark(err)
	}
	return p, q, nil
}

func (s Settings) relation() dp.Relation { return cmp.Or(s.Relation, dp.Replace) }

// check refuses numbers that make no sense by themselves.
func (s Settings) check() error {
	if err := cmp.Or(
		release.CheckField(ErrMechanism, "Ridge", "automatic", s.Ridge),
		release.CheckField(ErrMechanism, "Radius", "the radius of Set", s.Radius),
		release.CheckField(ErrMechanism, "Clip", "no clipping", s.Clip),
		release.CheckField(ErrMechanism, "Cover", "the default", s.Cover),
		release.CheckField(ErrMechanism, "Share", "the default", s.Share),
	); err != nil {
		return err
	}
	if s.Share >= 1 {
		return fmt.Errorf("%w: Share = %v, want a number in (0, 1), or 0 for the default", ErrMechanism, s.Share)
	}
	return nil
}
