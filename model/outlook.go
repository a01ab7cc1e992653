// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/table"
)

// Outlook is what a plan is expected to give: the results of its own fits to rows that the schema
// and a public seed make up, with levels equally likely, numbers spread over their ranges, and a
// label of which the columns explain half. Nothing of it is proved.
type Outlook struct {
	// Coefficients holds the standard deviation that noise gives each coefficient, in the units of the
	// file, and Weak whether most fits mark it as weak, which needs intervals.
	Coefficients []table.Coefficient
	Weak         []bool
	// Common is the relative deviation of a factor that noise puts on all effects together. The
	// deviations in Coefficients are those of effects of 0: a coefficient b other than the intercept
	// has √(Value² + (Common·b)²).
	Common float64
	// Prediction is the root mean square that noise and shrinkage move a prediction by, and Chance by
	// how much a prediction without noise errs because there are only so many records. Both are in the
	// units of the label, or in log odds.
	Prediction, Chance float64
	// Lost is the share of what the columns explain that noise and shrinkage take from the model, 1 or
	// more if a constant were as good.
	Lost float64
	// Absent is the root mean square that noise makes of the effect of a level that no record has,
	// against an average row: the deviation of a rare level is between that and the one listed. In
	// automatic fits it grows with the effects of other levels and with the number of rare ones. It is
	// 0 without declared levels, and for intervals with more than 50 parameters.
	Absent float64
	// Records is the number of records or persons from which on noise moves predictions less than
	// chance.
	Records float64
	// EnoughRecords at the same ε, or EnoughEpsilon with the same records, would leave three quarters
	// of what the columns explain. They are 0 unless Useless holds; Inf if nothing is enough.
	EnoughRecords, EnoughEpsilon float64
}

// Useless reports whether half of what the columns explain is lost.
func (o Outlook) Useless() bool { return o.Lost > mostLost }

// Sizes of a simulation: a second or two at most. Of 36 fits a deviation has an error of an eighth.
const (
	outlookRuns  = 36
	outlookRows  = 1200
	outlookCells = 1e5 // rows times parameters
	outlookSeed  = 20261123
	exactEpsilon = 50  // of a minimizer almost without noise
	exactScale   = 1e3 // of the noise of others without noise
	mostLost     = 0.5
	enoughLost   = 0.25
	leastRate    = 0.001
	// Deviation of the log odds of two classes: of a pair with different labels, the larger score
	// belongs to the positive one with a probability of about 0.7.
	classStrength = 0.75
	lookedAt      = 1500 // records whose predictions are compared
	rareShare     = 0.02 // of the levels "other" and "missing"
	roughDim      = 50   // with more parameters, the minimizers of plans with intervals are not solved
	roughSteps    = 4    // of Newton's method, for the logistic loss
)

// Outlook simulates the plan by a number of fits, 0 for 36; with 2 it leaves out EnoughRecords and
// EnoughEpsilon, with 12 or less Absent. It supposes that rate, 0 for ½, is the share of positive
// labels of two classes: noise moves log odds by about 1/(4·rate·(1−rate)) times as much as at ½.
// The plan needs a schema and a number of records. The error wraps [ErrOptions] or
// [dp.ErrCondition], or is ctx.Err().
func (pl *Plan) Outlook(ctx context.Context, fits int, rate float64) (Outlook, error) {
	fits = cmp.Or(fits, outlookRuns)
	if !pl.made() || pl.encoder == nil || pl.params.Records == 0 {
		return Outlook{}, fmt.Errorf("%w: an outlook needs a plan with a schema and a number of records", ErrOptions)
	}
	if fits < 2 || fits > 10000 {
		return Outlook{}, fmt.Errorf("%w: an outlook of %d fits, want 2 to 10,000, or 0", ErrOptions, fits)
	}
	if !(rate == 0 || rate >= leastRate && rate <= 1-leastRate) {
		return Outlook{}, fmt.Errorf("%w: an outlook for the rate %g: want 0, or the share of positive labels in [%g, %g]",
			ErrOptions, rate, leastRate, 1-leastRate)
	}
	if rate == 0 || pl.encoder.Kind() != table.Binary {
		rate = 0.5
	}
	s, err := pl.simulation(fits, rate, nil)
	if err != nil {
		return Outlook{}, err
	}
	out, err := s.run(ctx, 1, fits)
	if err == nil && fits > absentRuns {
		out.Absent, err = pl.absent(ctx, rate)
	}
	if err != nil || !out.Useless() || fits < 3 {
		return out, err
	}
	out.EnoughRecords, out.EnoughEpsilon = math.Inf(1), math.Inf(1)
	last := math.Inf(1)
	for factor := 2.0; factor <= 1<<10; factor *= 2 {
		more, err := s.run(ctx, factor, 3)
		if err != nil {
			return out, err
		}
		if more.Lost <= enoughLost {
			out.EnoughRecords = upTo(factor * float64(pl.params.Records))
			out.EnoughEpsilon = upTo(s.epsilon(factor))
			break
		}
		if factor/s.part*pl.params.Budget.Epsilon > exactEpsilon && more.Lost > last/2 {
			break // with less noise than the exact fits, whose ridge is what is left
		}
		last = more.Lost
	}
	return out, nil
}

// upTo rounds up to one digit, or to two below 2.
func upTo(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	if v < 2*unit {
		unit /= 10
	}
	return math.Ceil(v/unit*(1-1e-9)) * unit
}

// simulation is a plan with made-up rows, of which there may be fewer than the plan has.
type simulation struct {
	pl    *Plan
	data  *table.Data
	part  float64     // made-up records over those of the plan
	sigma float64     // deviation of a label around its mean, in units of the label
	rate  float64     // of positive labels
	exact [][]float64 // two fits almost without noise
	rough *rough      // nil: minimizers are solved
}

// simulation makes up the rows. If change is not nil, it changes the schema that they are read by.
func (pl *Plan) simulation(
	fits int, rate float64, change func(s *table.Schema),
) (*simulation, error) {
	schema, p := pl.encoder.Schema(), pl.params
	lines := 1
	if p.Rows > 0 {
		lines = min(p.Rows, 3)
	}
	most := max(200, min(outlookRows, int(outlookCells/float64(p.Dim*lines))))
	if fits <= 3 {
		most = min(most, 600)
	}
	if p.Intervals != nil && p.Dim > roughDim {
		most = max(most, 4*p.Dim)
	}
	n := min(p.Records, int(float64(most)/(4*rate*(1-rate)))) // with as much information on classes
	schema.Records, schema.File = n, table.File{Multiline: true}
	schema.Neighbors = p.Relation
	text, sigma := pl.madeUp(schema, n, lines, rate)
	if change != nil {
		change(schema)
	}
	data, err := table.ReadCSV(bytes.NewReader(text), schema)
	if err != nil {
		return nil, prefix.Errorf("model: made-up rows: %w", err)
	}
	out := &simulation{pl: pl, data: data, part: float64(n) / float64(p.Records), sigma: sigma, rate: rate}
	if p.Intervals != nil && p.Dim > roughDim {
		out.rough = newRough(data, p)
	}
	return out, nil
}

// task returns the problem of the made-up rows and a plan for it, whose noise on a mean is that of
// the plan over factor, or none for factor 0.
func (s *simulation) task(factor float64) (*task, *Plan, error) {
	o := s.pl.options
	n, _ := s.data.Records.Dims()
	if p, ok := s.data.Records.Persons(); ok && p.Rows > 0 {
		n = s.data.Encoder.Schema().Records
	}
	o.Records = n
	t, err := newTask(s.data, &o)
	if err != nil {
		return nil, nil, err
	}
	scale := factor / s.part
	if factor == 0 {
		scale = 1e6
	}
	if s.pl.params.Sequence != nil {
		other := *s.pl
		other.encoder, other.params = t.encoder, s.pl.params.clone()
		other.modulus *= s.part
		other.params.Records = n
		other.params.Dim = t.encoder.Dim()
		q := other.params.Sequence
		if q.Shares.Gradients == 0 { // ridges, too, are the same of a mean
			scale = min(scale, exactScale)
			for _, c := range []*float64{&q.FirstC, &q.C} {
				if *c = min(other.curvature(*c)*scale, math.Expm1(mostC)); other.params.Rows <= 1 {
					*c = math.Log1p(*c)
				}
			}
		}
		q.Mu *= scale
		if s.rough != nil {
			other.rough = &rough{s.rough.solution, s.rough.hessian, factor != 1}
		}
		return t, &other, nil
	}
	b := s.pl.params.Budget
	if factor == 0 { // less would make the minimizer slow
		scale = max(exactEpsilon/b.Epsilon, 1)
	}
	b.Epsilon = min(b.Epsilon*scale, 1e4)
	other, err := t.plan(b)
	return t, other, err
}

// epsilon returns the ε whose noise is smaller by a factor.
func (s *simulation) epsilon(factor float64) float64 {
	b := s.pl.params.Budget
	q := s.pl.params.Sequence
	if q == nil || q.Shares.Gradients == 0 {
		return b.Epsilon * factor
	}
	enough := func(e float64) bool {
		other := *s.pl
		other.params.Budget.Epsilon = e
		mu, err := other.mu(*q, 1e-3)
		return err == nil && mu >= factor*q.Mu
	}
	low, high := b.Epsilon, 2*b.Epsilon
	for ; !enough(high); low, high = high, 2*high {
		if high > 1e4 {
			return math.Inf(1)
		}
	}
	for high > 1.1*low {
		if middle := math.Sqrt(low * high); enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// run fits several times.
func (s *simulation) run(ctx context.Context, factor float64, runs int) (Outlook, error) {
	for k := len(s.exact); k < 2; k++ {
		t, best, err := s.task(0)
		if err != nil {
			return Outlook{}, err
		}
		out, err := best.run(ctx, t.problem, dp.Seeded(outlookSeed-uint64(k)))
		if err != nil {
			return Outlook{}, err
		}
		s.exact = append(s.exact, out.theta)
	}
	t, pl, err := s.task(factor)
	if err != nil {
		return Outlook{}, err
	}
	e := t.encoder
	forms := e.Forms()
	values, weak := make([][]float64, len(forms)), make([]int, len(forms))
	var thetas [][]float64
	looks := 0 // fits with intervals
	for k := range runs {
		out, err := pl.run(ctx, t.problem, dp.Seeded(outlookSeed+1+uint64(k)))
		if err != nil {
			return Outlook{}, err
		}
		thetas = append(thetas, out.theta)
		m := &Model{theta: out.theta, params: pl.params, choice: out.choice, moments: out.moments, encoder: e}
		var rows []Row
		if out.moments != nil {
			s, _ := m.estimates()
			rows = s.Rows
			looks++
		}
		if pl.rough != nil { // one look at intervals takes as long as a hundred rough fits
			pl.rough.lossOnly = true
		}
		for i := range forms {
			c := forms[i].Apply(out.theta)
			values[i] = append(values[i], c.Value)
			if len(rows) == 0 || len(forms[i].At) == 0 && forms[i].Column != "" {
				continue
			}
			if rows[0].Interval != nil && rows[0].Interval.Weak {
				weak[i]++
			}
			rows = rows[1:]
		}
	}
	out := Outlook{Weak: make([]bool, len(forms))}
	if err := s.predictions(&out, thetas, pl, factor); err != nil {
		return Outlook{}, err
	}
	for i, f := range forms {
		c := f.Coefficient
		own := 0.0
		if f.Column != "" {
			own = out.Common * f.Apply(s.exact[0]).Value
		}
		c.Value = math.Sqrt(max(stat.Variance(values[i], nil)-own*own, 0))
		out.Weak[i] = 2*weak[i] > looks
		out.Coefficients = append(out.Coefficients, c)
	}
	pool(forms, out.Coefficients, widths(e))
	return out, nil
}

// pool gives coefficients of the same law their common deviation: the levels of a column that are
// equally likely, and numbers, relative to the widths of their ranges.
func pool(forms []table.Form, list []table.Coefficient, widths map[string]float64) {
	type column struct{ name, class string }
	sums, counts := map[column]float64{}, map[column]float64{}
	own := func(i int) (k column, unit float64, ok bool) {
		f := forms[i]
		if w := widths[f.Column]; f.Name == f.Column && w > 0 {
			return column{"", f.Class}, w, true
		}
		level := f.Column != "" && f.Name != f.Column && len(f.At) > 0
		return column{f.Column, f.Class}, 1, level && !unlisted(f.Name, f.Column)
	}
	for i, c := range list {
		if k, unit, ok := own(i); ok {
			sums[k] += math.Pow(unit*c.Value, 2)
			counts[k]++
		}
	}
	for i := range list {
		if k, unit, ok := own(i); ok {
			list[i].Value = math.Sqrt(sums[k]/counts[k]) / unit
		}
	}
}

// predictions compares the predictions of fits with those of two fits almost without noise. What
// noise these have is independent, so that it does not count in the mean of products. That mean may
// be negative where there is little noise: the variance of the fits is the least that counts.
func (s *simulation) predictions(out *Outlook, thetas [][]float64, pl *Plan, factor float64) error {
	e := s.data.Encoder
	unit, variance := 1.0, 1.25/(s.rate*(1-s.rate)) // 1/p(1−p) for usual scores
	if kinds[pl.params.Loss.Name] == table.Range {
		unit, variance = e.LabelValue(1)-e.LabelValue(0), s.sigma*s.sigma/2
	}
	dim := len(e.Features())
	var square, spread float64
	var scores [2][]float64
	noisy := make([][]float64, len(thetas)) // scores
	rows, _ := s.data.Records.Dims()
	every, at := 1+rows/lookedAt, -1 // records that are alike follow each other
	err := s.data.Records.Each(func(a []float64, _ float64) {
		if at++; at%every > 0 {
			return
		}
		one, two := scoresOf(s.exact[0], a[:dim], unit), scoresOf(s.exact[1], a[:dim], unit)
		scores[0], scores[1] = append(scores[0], one...), append(scores[1], two...)
		all := make([][]float64, len(one))
		for i, theta := range thetas {
			for k, own := range scoresOf(theta, a[:dim], unit) {
				noisy[i] = append(noisy[i], own)
				square += (own - one[k]) * (own - two[k]) / float64(len(thetas))
				all[k] = append(all[k], own)
			}
		}
		for _, own := range all {
			spread += stat.Variance(own, nil)
		}
	})
	if err != nil {
		return err
	}
	n, d := float64(s.pl.params.Records)*max(factor, 1), float64(dim)
	out.Prediction = math.Sqrt(max(spread, square) / float64(len(scores[0])))
	variation := max(stat.Covariance(scores[0], scores[1], nil), math.SmallestNonzeroFloat64)
	out.Lost = out.Prediction * out.Prediction / variation
	out.Common = common(e, noisy, scores[0], variation)
	out.Chance = math.Sqrt(variance * d / n)
	out.Records = n * math.Pow(out.Prediction/out.Chance, 2)
	return nil
}

// common returns the deviation of the factor of the scores of several fits, less what noise of the
// same size in all directions gives it.
func common(e *table.Encoder, noisy [][]float64, exact []float64, variation float64) float64 {
	var factors []float64
	others, directions := 0.0, -1.0 // those without the factor
	for _, f := range e.Forms() {
		if len(f.At) > 0 && f.Column != "" {
			directions++
		}
	}
	if directions <= 0 {
		return 0
	}
	for _, own := range noisy {
		factor := stat.Covariance(own, exact, nil) / variation
		floats.AddScaled(own, -factor, exact)
		factors = append(factors, factor)
		others += stat.Variance(own, nil) / float64(len(noisy))
	}
	return math.Sqrt(max(stat.Variance(factors, nil)-others/directions/variation, 0))
}

// scoresOf returns the scores of the classes of a row. Their mean is 0: a summand that all have in
// common changes no prediction, and is noise alone.
func scoresOf(theta, row []float64, unit float64) []float64 {
	scores := make([]float64, len(theta)/len(row))
	for k := range scores {
		scores[k] = unit * floats.Dot(row, theta[k*len(row):(k+1)*len(row)])
	}
	if k := len(scores); k > 1 {
		floats.AddConst(-floats.Sum(scores)/float64(k), scores)
	}
	return scores
}

// madeUp returns a table of the schema with n records, or persons of some lines each, and the
// deviation of its labels.
func (pl *Plan) madeUp(
	schema *table.Schema, n, lines int, rate float64,
) (text []byte, sigma float64) {
	rnd := rand.New(rand.NewPCG(outlookSeed, uint64(n)))
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	header := []string{schema.Label.Column}
	var makers []func() (field string, effect []float64)
	classes := max(len(schema.Label.Levels), 1)
	for _, c := range schema.Columns {
		if !c.Ignore && c.Cross == nil && c.Name != schema.Person {
			header, makers = append(header, c.Name), append(makers, maker(c, len(makers), schema.Missing, classes, rnd))
		}
	}
	if schema.Person != "" {
		header = append(header, schema.Person)
	}
	w.Write(header) // a buffer has no errors
	row, scores := make([]string, len(header)), make([]float64, classes)
	l := schema.Label
	if l.Min != nil {
		sigma = (*l.Max - *l.Min) / 6 // a normal law within three deviations
	}
	strength := 1 / math.Sqrt(float64(len(makers)))
	if len(l.Positive) > 0 {
		strength *= classStrength
	}
	shift, _ := num.Bisect(func(v float64) bool { // scores of the mean v have this rate
		return normalMean(func(q float64) float64 { return 1 / (1 + math.Exp(-classStrength*q-v)) }) >= rate
	}, 20, -20)
	for i := range n * lines {
		clear(scores)
		for j, next := range makers {
			var effect []float64
			row[j+1], effect = next()
			floats.AddScaled(scores, strength, effect)
		}
		row[0] = madeUpLabel(l, scores, sigma, shift, rnd)
		if schema.Person != "" {
			row[len(row)-1] = "person" + strconv.Itoa(i%n)
		}
		w.Write(row)
	}
	w.Flush()
	return out.Bytes(), sigma
}

// madeUpLabel returns a label for scores of variance 1.
func madeUpLabel(l table.Label, scores []float64, sigma, shift float64, rnd *rand.Rand) string {
	switch {
	case l.Min != nil:
		v := (*l.Min+*l.Max)/2 + sigma*(scores[0]+rnd.NormFloat64())/math.Sqrt2
		return strconv.FormatFloat(min(max(v, *l.Min), *l.Max), 'g', -1, 64)
	case len(l.Levels) > 0:
		best := 0
		for k := range scores {
			scores[k] -= math.Log(rnd.ExpFloat64()) // the largest has the probability of multinomial regression
			if scores[k] > scores[best] {
				best = k
			}
		}
		return l.Levels[best]
	case rnd.Float64() < 1/(1+math.Exp(-scores[0]-shift)):
		return l.Positive[0]
	}
	return l.Negative[0]
}

// maker returns a function that makes up a field of a column, and its effects on the scores of the
// classes, of variance about 1.
func maker(c table.Column, at int, missing []string, classes int, rnd *rand.Rand) func() (string, []float64) {
	k := max(len(c.Levels), len(c.Bins)+1)
	effects := make([][]float64, k)
	for i := range effects {
		effects[i] = make([]float64, classes)
		for j := range effects[i] {
			effects[i][j] = math.Sqrt2 * math.Sin(float64(i*(j+2))*2.4+float64(len(c.Name)+j)) // in no order
		}
	}
	zero := make([]float64, classes)
	common := func() (string, []float64) {
		i := rnd.IntN(k)
		switch {
		case len(c.Levels) > 0:
			return c.Levels[i], effects[i]
		case len(c.Bins) > 0:
			edges := append(append([]float64{*c.Min}, c.Bins...), *c.Max)
			return field(c, (edges[i]+edges[i+1])/2), effects[i]
		}
		x := min(max(rnd.NormFloat64(), -2.5), 2.5)
		effect := make([]float64, classes)
		for j := range effect {
			effect[j] = x * float64(1-2*((at+j)%2))
		}
		return field(c, (*c.Min+*c.Max)/2+x*(*c.Max-*c.Min)/4.6), effect
	}
	return func() (string, []float64) {
		switch u := rnd.Float64(); {
		case c.Missing && len(missing) > 0 && u < rareShare:
			return missing[0], zero
		case c.Other && len(c.Levels) > 0 && u > 1-rareShare:
			return "\u2026", zero
		}
		return common()
	}
}

// field writes a number of a column.
func field(c table.Column, x float64) string {
	if c.Date != "" {
		start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		return start.Add(time.Duration(x * 24 * float64(time.Hour))).Format(c.Date)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
