// Package population measures the excess population loss of private stochastic
// convex optimization where it is known exactly, as the number of records, the
// dimension or the privacy budget grows, beside the bounds that are proved; and
// counts the gradients of records that each method evaluates.
//
//	go run ./cmd/research population                                privacy regime: slope −1 in n
//	go run ./cmd/research population -regime statistical            slope −1/2 in n
//	go run ./cmd/research population -sweep d                       slope +1/2 in d
//	go run ./cmd/research population -family absolute               a loss with a kink
//	go run ./cmd/research population -data adult.data -test adult.test    test accuracy on Adult against ε
//
// The table of mean excess goes to standard output; excess.csv, excess.png, its SVG and PDF,
// summary.json and cells.jsonl to the folder -out; slopes, notes and progress to standard error.
//
// # Families
//
//	linear    ℓ = −⟨w,z⟩, z of independent signs over √d, E z = μ, ‖w‖ ≤ 1; ‖μ‖ shrinks
//	          like the rate √(d ln(1/δ))/(εn) or 1/√n, whichever is larger: the hard
//	          family on which no method can be faster than the rate
//	absolute  ℓ = |⟨a,w⟩ − b|, a = ±e_j, b = ⟨a,w*⟩ + N(0, ¼), ‖w*‖ = ½
//	logistic  a uniform on {±1/√d}ᵈ, P(b = 1) = 1/(1 + e^{−⟨a,w*⟩}), ‖w*‖ = 4, d ≤ 16
//
// With a fixed distribution that has curvature, as the last two, the excess falls
// faster than the worst case: no slope is promised for them.
//
// # Methods
//
//	sgd, prox, dpsgd, objpert, svrg, output, psgd, phased   those of package sco
//	onepass  averaged SGD, one gradient a record, no privacy
//	zero     w = 0
//
// # Notation
//
//	excess  F(w) − min F, F the expected loss of one record; averaged over runs
//	slope   of log excess, the geometric mean of the runs, against the log of the
//	        swept quantity, with a 95 % bootstrap interval over the runs
//	n*      d ln(1/δ)/ε², where the two regimes meet
//
// # References
//
//	[BFTT19]  Bassily, Feldman, Talwar, Thakurta. Private Stochastic Convex
//	          Optimization with Optimal Rates. NeurIPS 2019.
package experiment

import (
	"context"
	"io"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/sco"
	"github.com/privopt/privopt/table"
)

// public are the errors that a flag or a file can repair.
var populationErrors = []error{
	table.ErrTable, erm.ErrData, erm.ErrProblem, sco.ErrMechanism, lop.ErrMechanism,
}

// Run is the command: it returns its exit code.
func Population(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, flags := newPopulation()
	return flags.RunExperiment(ctx, args, stdout, stderr, &c.Options, populationErrors, func() (*sweep.Experiment, error) {
		if err := c.check(flags); err != nil {
			return nil, err
		}
		return c.experiment()
	})
}
