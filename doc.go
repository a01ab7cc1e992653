// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package privopt is the root of a toolkit for differentially private
// optimization: minimizers of regularized losses over records that must not
// leak, and certificates that say what they cost. It holds nothing but the
// version; import the packages below.
//
// # The twenty names you need
//
// From a table to a model, see package model:
//
//	table.ReadSchema    reads what is public about a table: columns, ranges, levels, the label
//	table.ReadCSV       reads the private table, every record inside the declared bounds
//	model.Fit           fits a private model, with everything chosen automatically
//	model.Model         predicts, summarizes, saves; it may be published
//	model.NewPlan       says what a fit would cost and how exact it would be, before it
//
// What a release costs, see package dp:
//
//	dp.Budget           (ε, δ)
//	dp.Relation         dp.Replace or dp.AddRemove: which data sets are neighbors
//	dp.Plan             a calibrated mechanism: its certificate and its privacy profile
//	dp.Release          a published point and its certificate
//	dp.Certificate      the claim, its theorem, and what the program did not check
//	dp.Compose          the cost of several plans together
//	ledger.Create       makes a file that counts what was spent; ledger.Open opens it
//	Ledger.Spend        enters a plan, or refuses it, before noise is drawn
//
// A problem of one's own, see package lop:
//
//	erm.NewData         takes rows, labels and their declared bounds
//	erm.Problem         data, a loss, a regularizer and a set
//	loss.Logistic       and the other losses of package loss
//	prox.L1             and the other regularizers and sets of package prox
//	lop.Mechanism       plans and fits; its Plan serves many fits
//
// A mechanism of one's own, see examples/ownmechanism in the repository:
//
//	additive.Mechanism  exact noise for a point whose sensitivity you declare
//	dptest.Check        tests the mechanism, the last bits of its releases included
//
// # Which package
//
//	a table of mixed columns, a model, predictions    table, model, or the command privopt
//	logistic, robust and clipped regression           lop
//	a public anchor that every record interpolates    qop
//	small loss on the population, noisy SGD           sco
//	halfspaces and other finite sets, no convexity    objpert
//	sums, counts, results of one's own algorithm      additive
//	several releases of one data set                  dp.Compose, dp/ledger
//	no privacy: QP, f(x) + g(x) + h(Kx), certified    splitting, prox
//	instances of a published experiment               lasso
//
// The other packages are what these are made of: erm (records and risks), loss (losses and
// their constants), randmat (Wishart matrices). Own losses, operators and sources of records
// are tested by loss/losstest, prox/proxtest and erm/ermtest. Wherever a function takes a
// rand.Source, it is that of math/rand/v2, and nil stands for a secure one.
//
// # How to read a certificate
//
// A certificate names a budget (ε, δ), which data sets are neighbors, the theorem, and
// the assumptions that the program did not check. It is a statement about the program,
// rounding included, see dp.Certificate. What an identifier such as lop.joint/2 says
// stands in the comment of its package; docs/theory/README.md lists all of them.
package privopt
