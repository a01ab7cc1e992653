// Package scaling compares private methods for ℓ1-regularized least squares in
// a box as its half-width κ, the number of records, the dimension or the
// privacy budget grows: the diameter experiment of [CC26, §5.2], with constants
// that are proved and solutions that are certified, or as it was published.
//
//	go run ./cmd/scaling                 the experiment, every release certified
//	go run ./cmd/scaling -eta 0          the same with the anchor taken as exact, as published
//	go run ./cmd/scaling -mode paper     the published procedure, not private
//	go run ./cmd/scaling -sweep n        risk against the number of records in a box that excludes the anchor
//	go run ./cmd/scaling -figure bound   the paper's bound against ε, published and sharp
//
// The table goes to standard output, the files risk.csv, risk.png, risk.svg, risk.pdf, summary.json
// and cells.jsonl to the folder -out, notes and progress to standard error.
//
// # Methods
//
//	lop         linear perturbation; its noise grows with the gradient bound of the box
//	lop-clip    the same on the Huberized loss, whose gradients are clipped
//	qop         quadratic perturbation around the public anchor
//	anchor      the anchor, projected on the box: no record is used
//	nonprivate  the minimizer without any noise
//
// # The anchor
//
// Generated labels are those of a planted parameter θ*, at which the gradients of all records vanish; the
// anchor is θ* plus noise of deviation S = -anchor-noise in each coordinate. The certificate of qop rests
// on a declared η ≥ ‖anchor − θ*‖. By default that is S(√d+3), which is true of every anchor generated
// here, and costs noise. The published experiment takes the anchor as exact, -eta 0: the certificate then
// lists an assumption that the summary calls false, unless -anchor-noise is 0.
//
// # Notation
//
//	κ, λ, ξ     -kappa, -lambda, -xi
//	ε, δ, η, ρ  -eps, -delta, -eta, -rho
//	σ, Δ        noise and ridge of lop
//	σ²m         mean curvature of qop
//
// # References
//
//	[CC26]  Cortild, Cartis. Quadratic Objective Perturbation:
//	        Curvature-Based Differential Privacy. 2026.
package experiment

import (
	"context"
	"io"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/table"
)

// public are the errors that a flag or a file can repair.
var scalingErrors = []error{
	erm.ErrData, erm.ErrProblem, lasso.ErrFile, lasso.ErrParameter, lop.ErrMechanism, qop.ErrMechanism, table.ErrTable,
}

// Run is the command: it returns its exit code.
func Scaling(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, flags := newScaling()
	return flags.RunExperiment(ctx, args, stdout, stderr, &c.Options, scalingErrors, func() (*sweep.Experiment, error) {
		if err := c.check(flags); err != nil {
			return nil, err
		}
		return c.experiment()
	})
}
