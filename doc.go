// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package privopt is the root of a toolkit for differentially private
// optimization: minimizers of regularized losses over records that must not
// leak, and certificates that say what they cost.
//
// # Which package
//
//	a table of mixed columns, a model, predictions    table, model, or the command privopt
//	logistic, robust and clipped regression           lop
//	a public anchor that every record interpolates    qop
//	small loss on the population, noisy SGD           sco
//	halfspaces and other finite sets, no convexity    objpert
//	several releases of one data set                  dp.Compose, dp/ledger
//	no privacy: f(x) + g(x) + h(Kx) with certificates splitting, prox
//	instances of a published experiment               lasso
//
// The other packages are what these are made of: noise (exact draws), dp (budgets,
// certificates, composition), loss (losses and their constants), randmat (Wishart
// matrices), erm (records and risks).
//
// # How to read a certificate
//
// A certificate names a budget (ε, δ), which data sets are neighbors, the theorem, and
// the assumptions that the program did not check. It is a statement about the program,
// rounding included, see dp.Certificate. What an identifier such as lop.joint/2 says
// stands in the comment of its package; docs/theory/README.md lists all of them.
package privopt
