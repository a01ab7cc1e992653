// Package halfspace compares private classifiers on 0/1 loss as the privacy budget grows: objective
// perturbation over integer halfspaces, each minimized to proven optimality, against private
// logistic regression. It reproduces the experiment of [NRVW20, Figure 1] on the Adult data, with
// guarantees that are proved.
//
//	go run ./cmd/research halfspace                                 on generated records of the same shape
//	go run ./cmd/research halfspace -data adult.data                on the records of the experiment
//	go run ./cmd/research halfspace -data adult.data -test adult.test    and accuracy on records that were not used
//	go run ./cmd/research halfspace -data adult.data -split 0.2     the same on a fifth of the file
//
// The table of accuracies goes to standard output; accuracy.csv, accuracy.png, heldout.png,
// seconds.png (a histogram of run times), their SVG and PDF, summary.json and cells.jsonl to the
// folder -out; notes and progress to standard error. adult.data and adult.test are files of the UCI
// Machine Learning Repository (doi:10.24432/C5XW20). All records with income above 50K are taken,
// and as many of the others.
//
// # Methods
//
//	opdisc      OPDisc with radial noise on the lattice ℤᵈ, ‖w‖² ≤ Q, for each Q of -q: pure
//	gaussian    the same with the proved Gaussian noise, at δ
//	paper       the same at Q = d with the published σ, whose claimed ε is not proved
//	product     K-norm noise on {−1,0,1}ᵈ: pure
//	cube        K-norm noise on {−1,1}ᵈ: pure
//	rspm        RSPM on {−1,0,1}ᵈ with Laplace noise: pure
//	rspm-paper  the same with the published σ of the Gaussian
//	logistic    logistic regression by linear objective perturbation, at δ
//	nonprivate  the exact minimizer of the 0/1 loss at the largest Q, without noise
//
// # Notation
//
//	n, d, Q     records, features (-features), squared norm (-q)
//	ε, δ        -eps, -delta
//	accuracy    share of the records whose label is the sign of ⟨x, w⟩, sgn(0) = −1
//
// # References
//
//	[NRVW20]  Neel, Roth, Vietri, Wu. Oracle Efficient Private Non-Convex
//	          Optimization. ICML 2020.
package experiment

import (
	"context"
	"io"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/objpert"
	"github.com/privopt/privopt/table"
)

// public are the errors that a flag or a file can repair.
var halfspaceErrors = []error{
	table.ErrTable, erm.ErrData, erm.ErrProblem, lop.ErrMechanism, objpert.ErrMechanism, objpert.ErrProblem,
}

// Run is the command: it returns its exit code.
func Halfspace(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, flags := newHalfspace()
	return flags.RunExperiment(ctx, args, stdout, stderr, &c.Options, halfspaceErrors, func() (*sweep.Experiment, error) {
		if err := c.check(); err != nil {
			return nil, err
		}
		return c.experiment()
	})
}
