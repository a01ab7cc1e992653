// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/objpert"
)

// Halfspace compares private classifiers on 0/1 loss as the budget grows: objective perturbation
// over integer halfspaces, each minimized to proven optimality, beside private logistic regression.
// This is the experiment of [NRVW20, Figure 1], with guarantees that are proved.
//
//	exponential the exponential mechanism on the lattice ℤᵈ, ‖w‖² ≤ Q, for each Q: pure
//	opdisc      OPDisc with radial noise on the lattice ℤᵈ, ‖w‖² ≤ Q, for each Q: pure
//	gaussian    the same with the proved Gaussian noise, at δ = 1/n²
//	paper       the same at Q = d with the published σ, whose claimed ε is not proved
//	product     K-norm noise on {−1,0,1}ᵈ: pure
//	cube        K-norm noise on {−1,1}ᵈ: pure
//	rspm        RSPM on {−1,0,1}ᵈ with Laplace noise: pure
//	rspm-paper  the same with the published σ of the Gaussian
//	logistic    logistic regression by linear objective perturbation, at δ
type Halfspace struct {
	N     int      // generated records, and half as many held out; 0: the records of Adult
	Kinds []string // of methods
	Q     []int    // squared norms of the lattices, in increasing order
	Runs  int      // of a cell
	// Race, if positive, is the time that CBC gets to minimize beside the search, as long as it; the
	// answers of CBC are incumbents.
	Race time.Duration
}

// Over is the experiment over budgets.
func (c Halfspace) Over(epsilons ...float64) (*sweep.Experiment, error) {
	d, err := c.load()
	if err != nil {
		return nil, err
	}
	e := &sweep.Experiment{
		Name: "halfspace", Files: "accuracy", Sweep: "eps", Values: epsilons, Params: c,
		Prepare: d.prepare, Columns: halfspaceColumns,
		NotPrivate: "accuracies are computed from the records, without noise",
	}
	if c.Race > 0 {
		e.NotPrivate = "the answers of cbc are incumbents, not proven minimizers"
	}
	for _, k := range c.Kinds {
		if !slices.Contains(latticeKinds, k) {
			e.Methods = append(e.Methods, k)
			continue
		}
		for _, q := range c.Q {
			e.Methods = append(e.Methods, latticeName(k, q))
		}
	}
	return e, nil
}

// latticeKinds are the kinds with a method for each Q.
var latticeKinds = []string{"exponential", "opdisc", "gaussian"}

func latticeName(kind string, q int) string { return fmt.Sprintf("%s-q%d", kind, q) }

// features is the number of features of the experiment.
const features = 23

// kind returns the kind of a method and the Q of its lattice, 0 for none.
func (c Halfspace) kind(method string) (kind string, q int) {
	if method == "paper" {
		return method, features
	}
	for _, k := range latticeKinds {
		for _, q := range c.Q {
			if method == latticeName(k, q) {
				return k, q
			}
		}
	}
	return method, 0
}

// halfspaceData are the records, and what methods share.
type halfspaceData struct {
	Halfspace
	train, test integers
	smooth      *erm.Data
	delta       float64

	problems sweep.Memo[string, *objpert.Problem]
}

// halfspaceDetail is kept beside the mean of a cell. Not private.
type halfspaceDetail struct {
	sweep.Fitted
	Test     []float64 `json:"test,omitempty"` // held-out accuracy of each run
	Unproven int       `json:"unproven,omitempty"`
	Laps     []Lap     `json:"laps,omitempty"` // of a race
}

// held returns r with the held-out accuracy as its mean.
func held(r sweep.Result) (sweep.Result, bool) {
	d, ok := sweep.DetailOf[halfspaceDetail](r)
	if !ok || len(d.Test) == 0 {
		return r, false
	}
	r.Average(d.Test)
	return r, true
}

var halfspaceColumns = []sweep.Column{
	sweep.Number("heldout", func(r sweep.Result) (float64, bool) { h, ok := held(r); return h.Mean, ok }),
	sweep.Number("heldout_std", func(r sweep.Result) (float64, bool) { h, ok := held(r); return h.Std, ok }),
	sweep.Number("unproven", func(r sweep.Result) (float64, bool) {
		d, ok := sweep.DetailOf[halfspaceDetail](r) // without it nothing is known
		return float64(d.Unproven), ok
	}),
}

// prepare calibrates a cell. Everything that scales noise is a flag or public; Fit alone reads the
// records.
func (d *halfspaceData) prepare(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
	kind, q := d.kind(cell.Method)
	b := dp.Budget{Epsilon: cell.Value, Delta: d.delta}
	det := &halfspaceDetail{}
	var against *race
	var fit sweep.Fitter
	var err error
	if kind == "logistic" {
		fit, err = d.logistic(b)
	} else {
		oracle := objpert.Oracle(objpert.Search{Workers: 1}) // cells run in parallel
		if d.Race > 0 {
			against = &race{limit: d.Race}
			oracle = against
		}
		fit, err = d.discrete(kind, q, b, oracle)
	}
	if err != nil {
		return sweep.Task{}, err
	}
	return sweep.Task{
		Runs: d.Runs,
		Run: func(ctx context.Context, src rand.Source) (float64, error) {
			w, err := det.Fit(ctx, seeded, src, fit)
			if against != nil && errors.Is(err, dp.ErrWithheld) && (against.found != nil || against.lap.NoPoint) {
				// No release: the label of the experiment says so.
				w, err = make([]float64, len(d.train.row[0])), nil
				if against.found != nil {
					for j, v := range against.found.W {
						w[j] = float64(v)
					}
				}
				det.Unproven++
				det.Laps = append(det.Laps, against.lap)
			}
			if err != nil {
				return 0, err
			}
			return d.measure(det, w), nil
		},
		Detail: func() any { return det },
	}, nil
}

// measure returns the training accuracy and keeps the held-out one.
func (d *halfspaceData) measure(det *halfspaceDetail, w []float64) float64 {
	if len(d.test.row) > 0 {
		det.Test = append(det.Test, d.test.accuracy(w))
	}
	return d.train.accuracy(w)
}

// discrete calibrates a mechanism over integer weights.
func (d *halfspaceData) discrete(
	kind string, q int, b dp.Budget, oracle objpert.Oracle,
) (sweep.Fitter, error) {
	space := objpert.Space{Values: []int{-1, 0, 1}, NormSq: -1}
	switch {
	case q > 0:
		space = objpert.Lattice(q)
	case kind == "cube":
		space.Values = []int{-1, 1}
	}
	p, err := d.problem(space)
	if err != nil {
		return nil, err
	}
	law := map[string]objpert.Law{"gaussian": objpert.Gaussian, "paper": objpert.PaperSigma,
		"rspm-paper": objpert.PaperSigma}[kind]
	var plan *objpert.Plan
	switch kind {
	case "exponential":
		plan, err = (&objpert.Exponential{}).Plan(p, dp.Budget{Epsilon: b.Epsilon})
	case "opdisc", "gaussian", "paper":
		plan, err = (&objpert.OPDisc{Law: law, Oracle: oracle}).Plan(p, b)
	case "product", "cube":
		plan, err = (&objpert.Product{Oracle: oracle}).Plan(p, b)
	case "rspm", "rspm-paper":
		plan, err = (&objpert.RSPM{Law: law, Oracle: oracle}).Plan(p, b)
	default:
		return nil, fmt.Errorf("no method %q", kind)
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }, nil
}

// problem merges the records over a space, once.
func (d *halfspaceData) problem(space objpert.Space) (*objpert.Problem, error) {
	return d.problems.Get(fmt.Sprint(space.Values, space.NormSq), func() (*objpert.Problem, error) {
		return objpert.NewProblem(d.train.row, d.train.label, nil, space)
	})
}

// logistic calibrates logistic regression by linear objective perturbation.
func (d *halfspaceData) logistic(b dp.Budget) (sweep.Fitter, error) {
	p := &erm.Problem{Data: d.smooth, Loss: loss.Logistic{}}
	plan, err := (&lop.Mechanism{Radius: 20}).Plan(p, b) // a public guess at the norm of the solution
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, src rand.Source) (*dp.Release, error) { return plan.Fit(ctx, p, src) }, nil
}

// integers is a set of records as integers.
type integers struct {
	row   [][]int64
	label []int
}

// accuracy is the share of the records whose label is the sign of ⟨x, w⟩, with sgn(0) = −1. Scores
// of integer weights are exact: |x_j| < 2³¹ and |w_j| < 2¹⁵.
func (p integers) accuracy(w []float64) float64 {
	right := 0
	for i, x := range p.row {
		score := 0.0
		for j, v := range x {
			score += float64(v) * w[j]
		}
		if (score > 0) == (p.label[i] > 0) {
			right++
		}
	}
	return float64(right) / float64(len(p.row))
}

// load reads or generates the records.
func (c Halfspace) load() (*halfspaceData, error) {
	set, err := adult.Experiment(features)
	if err != nil {
		return nil, err
	}
	var train, test []adult.Record
	if c.N > 0 {
		src := rand.New(noise.Reproducible(0, "halfspace", "records"))
		train, test = people(c.N, src), people(max(1, c.N/2), src)
	} else {
		if train, err = readAdult("adult.data", adult.Read); err == nil {
			test, err = readAdult("adult.test", adult.Read)
		}
		if err != nil {
			return nil, err
		}
		train, test = adult.Balanced(train), adult.Balanced(test)
	}
	d := &halfspaceData{Halfspace: c, delta: 1 / (float64(len(train)) * float64(len(train)))}
	d.train.row, d.train.label = set.Integers(train)
	d.test.row, d.test.label = set.Integers(test)
	rows, labels := set.Floats(train)
	// Features are in [0, 1]; one of each category is 1, the others are 0.
	attributes := map[int]bool{}
	for _, f := range set {
		attributes[f.Attribute] = true
	}
	d.smooth, err = erm.NewData(rows, labels, loss.Bounds{Row: math.Sqrt(float64(len(attributes))), Label: 1})
	return d, err
}

// people draws records like those of Adult: levels by a decaying law, capital gain and loss mostly
// 0, working hours mostly 40, and a label that a score of a few attributes decides with some doubt.
// Both labels are equally frequent.
func people(n int, src *rand.Rand) []adult.Record {
	records := make([]adult.Record, 0, n)
	left := map[bool]int{false: n / 2, true: n - n/2}
	for len(records) < n {
		var r adult.Record
		score := -1.0
		for i, a := range adult.Attributes {
			switch {
			case a.Levels != nil:
				level := 0
				for level < len(a.Levels)-1 && src.Float64() < 0.55 {
					level++
				}
				r.Value[i] = int64(level)
				if a.Name == "marital-status" || a.Name == "relationship" {
					score += []float64{1.2, -0.4, -1.1}[min(level, 2)]
				}
			case a.Name == "capital-gain" || a.Name == "capital-loss":
				if src.Float64() < 0.07 {
					share := float64(1+src.IntN(20)) / 40 // of the maximum
					r.Value[i] = int64(share * *a.Max)
					score += 6 * share
				}
			case a.Name == "hours-per-week":
				r.Value[i] = 40
				if src.Float64() < 0.5 {
					r.Value[i] = min(int64(*a.Max), 5*src.Int64N(20))
				}
				score += float64(r.Value[i]-40) / 40
			default:
				r.Value[i] = src.Int64N(int64(*a.Max) + 1)
			}
		}
		r.Positive = src.Float64() < 1/(1+math.Exp(-2*score))
		if left[r.Positive] > 0 {
			left[r.Positive]--
			records = append(records, r)
		}
	}
	return records
}
