package audit

import (
	"context"
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/lop"
)

// names is the attack on the values of the sampler: whoever knows all records
// but one computes, for each candidate data set, the noise b that a released
// minimizer implies. If the sampler has few values, the noise of the true data
// set is one of them and that of the other is not [Mir12].
//
// The output noise is switched off and the solver driven to the limit of
// rounding, so that the sampler alone is tested:
// logistic regression, n = 200 unit rows, d = 10, neighbors that differ in one
// label, 400 releases. The noise that ours implies is never a value of the
// ziggurat in all coordinates; against the ziggurat the attack names the data.
func names(ctx context.Context, e *Env) (Finding, error) {
	list := sample(199, 10, "lattice")
	c := logistic(lop.Mechanism{Delta: 5, Cover: 1e-14, Radius: 1}, [2][]record{with(list, axis(10, 0.5, 1)), with(list, axis(10, 0.5, -1))})
	plan, err := c.plan()
	if err != nil {
		return Finding{}, err
	}
	// A cover of 1e-14 is beyond what rounding can certify: release all the same.
	ctx = fault.With(fault.With(ctx, fault.OutputScale, times(0)), fault.Certified, always(true))
	r, err := c.prepare(ctx)
	if err != nil {
		return Finding{}, err
	}
	cert, err := r.certificate(ctx, e)
	if err != nil {
		return Finding{}, err
	}
	f := Claimed(cert)
	f.Runs = 400
	r.sigma = plan.Sigma // to the last bit
	src := e.Source("lattice")
	// The implied noise is exact to rounding, about 1e-13 of σ; ten coordinates of a
	// real number pass at this tolerance with probability below 1e-9.
	const tol = 4e-13
	fits := func(theta []float64, i int) bool {
		for _, b := range r.recovered(theta, i, nil) {
			if z := b / r.sigma; math.Abs(z) < lattice.edge[1] && !lattice.has(z, tol) {
				return false
			}
		}
		return true
	}
	named := 0
	for run := range f.Runs {
		i := run % 2
		rel, err := r.fit[i](ctx, src)
		if err != nil {
			return f, err
		}
		if fits(rel.Theta, i) && !fits(rel.Theta, 1-i) {
			named++
		}
	}
	if named > 0 {
		f.Reason = fmt.Sprintf("the noise of %d of %d releases names the data set", named, f.Runs)
	}
	return f, nil
}
