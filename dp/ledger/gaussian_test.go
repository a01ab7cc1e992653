// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// stepped is a plan with steps.
type stepped struct {
	plan
	steps *dp.Steps
}

func (p stepped) Profile() dp.Profile {
	q := p.plan.Profile()
	q.Steps = p.steps
	return q
}

// steps returns a plan whose budget no filter of sums admits.
func steps(square, curvature, doublings float64) stepped {
	return stepped{costs(9, 1e-3), &dp.Steps{Square: square, Curvature: curvature, Doublings: doublings}}
}

// gaussianTerms are terms with a Gaussian filter alone, beside that of sums.
func gaussianTerms(relation dp.Relation) Terms {
	t := Terms{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}, Relation: relation}
	t.Gaussian = new(newGaussian(dp.Budget{Epsilon: 1, Delta: 0.49e-6}, relation))
	return t
}

// TestGaussianCost compares the cost of totals with the formula over a grid of e₁.
func TestGaussianCost(t *testing.T) {
	d := dp.GaussianDelta
	for _, g := range []Gaussian{
		{Square: 0.02}, {Square: 0.02, Curvature: 0.3}, {Square: 0.02, Curvature: 0.3, Other: 0.2, Doublings: 5},
		{Square: 0.01, Curvature: 0.4, Other: 0.4, Doublings: 2.5, Delta: 1e-7, Failure: 1e-9},
		{Curvature: 0.5, Other: 0.5, Delta: 1e-5}, {Square: 0.05, Doublings: 12},
	} {
		for _, eps := range []float64{0.6, 1, 2} {
			h, k, failures := math.Sqrt(g.Square), math.Exp2(g.Doublings), (1+math.Exp(eps))*g.Failure
			want := min(1, g.Delta+max(d(eps-g.Curvature, h), k*d(eps-g.Other, h))+failures)
			require.InDelta(t, want, g.cost(eps, dp.AddRemove), want*1e-8+1e-300)
			least := 1.0
			for i := range 2001 {
				e1 := eps * float64(i) / 2000
				addFirst := k*d(e1, h/2) + math.Exp(e1)*(g.Delta+d(eps-e1-g.Curvature, h/2))
				removeFirst := d(e1-g.Curvature, h/2) + math.Exp(e1)*(g.Delta+k*d(eps-e1-g.Other, h/2))
				least = min(least, addFirst, removeFirst)
			}
			got := g.cost(eps, dp.Replace)
			require.LessOrEqual(t, got, (least+failures)*(1+1e-8))
			require.GreaterOrEqual(t, got, (least+failures)*0.99) // the grid is coarser than the search
		}
	}
}

// TestGaussianTotals checks that each total refuses the next entry exactly when the decimal sums
// exceed it, and that a release without steps counts with its budget.
func TestGaussianTotals(t *testing.T) {
	terms := Terms{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}, Relation: dp.Replace,
		Gaussian: &Gaussian{Square: 0.001, Curvature: 0.3, Other: 0.2, Doublings: 3, Delta: 1e-8, Failure: 1e-9}}
	failing := steps(1e-9, 0, 0)
	failing.failure = 1e-10
	rest := func(eps, delta float64) plan { // refused by the sums, behind the first entry
		p := costs(eps, delta)
		p.say = "without steps"
		return p
	}
	for _, c := range []struct {
		name string
		p    dp.Plan
		n    int
	}{
		{"squared shifts", steps(0.0001, 0, 0), 10}, {"curvature", steps(1e-9, 0.1, 0), 3},
		{"doublings", steps(1e-9, 0, 1), 3}, {"failures", failing, 10}, {"other ε", rest(0.1, 1e-12), 2},
		{"other δ", rest(1e-6, 1e-9), 10},
	} {
		l := create(t, terms)
		_, err := l.Spend(ctx, steps(1e-12, 0, 0), nil) // ends the filter of sums
		require.NoError(t, err)
		l2, err := Open(l.Path())
		require.NoError(t, err)
		sums := l2.s.terms.Gaussian.totals()
		sums[0] += 0 // totals as they stand in the file
		require.Equal(t, terms.Gaussian.totals(), sums)
		n := 0
		for ; n < 20; n++ {
			if _, err = l2.Spend(ctx, c.p, nil); err != nil {
				break
			}
		}
		want := c.n
		if c.name == "squared shifts" {
			want-- // what the first entry used is missing
		}
		require.Equal(t, want, n, c.name)
		require.ErrorIs(t, err, ErrOverspent)
		require.ErrorContains(t, err, "filter gaussian: ")
		require.ErrorContains(t, err, c.name)
	}
	// Curvature and other ε share one total.
	l := create(t, terms)
	for _, p := range []dp.Plan{steps(1e-12, 0.15, 0), rest(0.15, 1e-12)} {
		_, err := l.Spend(ctx, p, nil)
		require.NoError(t, err)
	}
	for _, p := range []dp.Plan{steps(1e-12, 1e-6, 0), rest(1e-6, 1e-12)} {
		_, err := l.Spend(ctx, p, nil)
		require.ErrorIs(t, err, ErrOverspent)
	}
	used := l.Used()
	require.Equal(t, Use{"gaussian", totalNames[1], 0.3, 0.15, 0.3}, used[3])
}

// TestPureCharge checks the shift that stands for a pure release: its Gaussian has larger hockey
// sticks at every ε and meets them at one, and the square of ε would not do.
func TestPureCharge(t *testing.T) {
	g := Gaussian{Square: 1, Curvature: 1e-3, Other: 1e-3}
	for _, eps0 := range []float64{1e-9, 1e-3, 0.1, 1, 3, 20, 700} {
		e := Entry{Epsilon: eps0}
		c := g.charges(e)
		require.Zero(t, c[1]+c[2]+c[3]+c[4]+c[5])
		s := math.Sqrt(c[0])
		pure, worst := dp.PureCurve(eps0), 0.0
		for i := range 401 {
			eps := eps0 * float64(i-200) / 150
			require.LessOrEqual(t, pure(eps), dp.GaussianDelta(eps, s)*(1+1e-9))
			if eps >= 0 && pure(eps) > 0 {
				worst = max(worst, pure(eps)/dp.GaussianDelta(eps, s))
			}
		}
		require.Greater(t, worst, 1-1e-6)
		if eps0 < 1 { // the value of zero-concentrated privacy is too small
			require.Greater(t, pure(0), 1.2*dp.GaussianDelta(0, eps0))
		}
	}
	// The smaller part of its total is taken, and approximate releases have no choice.
	g = Gaussian{Square: 1e-6, Curvature: 1, Other: 1}
	require.Equal(t, [6]float64{1: 0.5, 2: 0.5}, g.charges(Entry{Epsilon: 0.5}))
	require.Equal(t, [6]float64{1: 0.5, 2: 0.5, 4: 1e-9}, Gaussian{Square: 9}.charges(Entry{Epsilon: 0.5, Delta: 1e-9}))
}

// A law is that of the privacy loss of one release: losses, their probabilities, and the
// probability of an infinite loss.
type law struct {
	loss, p  []float64
	infinite float64
}

// minimizer returns the law of the loss between two data sets of one record each (or none), for
// φ′ and φ″ at scale σ = 1 and modulus μ = 1: the density of the exact minimizer θ is
// ν(θ + φ′(θ))(1 + φ″(θ)).
func minimizer(from, to func(theta float64) (slope, curvature float64)) (l law) {
	density := func(f func(float64) (float64, float64), theta float64) float64 {
		slope, curvature := f(theta)
		b := theta + slope
		return math.Exp(-b*b/2) / math.Sqrt(2*math.Pi) * (1 + curvature)
	}
	const step = 0.05
	for i := range 360 {
		theta := -9 + (float64(i)+0.5)*step // kinks of φ′ are at multiples of the step
		p := density(from, theta)
		l.p = append(l.p, p*step)
		l.loss = append(l.loss, math.Log(p/density(to, theta)))
	}
	return l
}

// gaussianLaw returns the law of a Gaussian release of shift t.
func gaussianLaw(t float64) law {
	shift := func(t float64) func(float64) (float64, float64) {
		return func(float64) (float64, float64) { return -t, 0 }
	}
	return minimizer(shift(t), shift(0))
}

// best returns the largest E(1−e^{ε−L})₊ over all adaptive strategies that make one step of each
// set of options, in this order, each chosen with knowledge of the losses so far.
func best(eps float64, stages [][]law) float64 {
	const lo, step, n = -6, 0.02, 601
	value := func(u float64) float64 { return max(0, -math.Expm1(eps-u)) }
	for _, options := range stages {
		next := make([]float64, n)
		for i := range next {
			u := lo + step*float64(i)
			for _, l := range options {
				v := l.infinite
				for j, p := range l.p {
					v += p * value(u+l.loss[j])
				}
				next[i] = max(next[i], v)
			}
		}
		value = func(u float64) float64 {
			x := min(max((u-lo)/step, 0), n-1.001)
			i := int(x)
			return next[i] + (x-float64(i))*(next[i+1]-next[i])
		}
	}
	return value(0)
}

// TestGaussianFilterAgainstTheBestStrategy plays the theorem of the filter: three minimizers, whose
// losses are chosen with knowledge of earlier outputs, a Gaussian and an approximate release. No
// strategy costs more than the totals, for removing, adding and replacing; without C or without
// the doublings some do.
func TestGaussianFilterAgainstTheBestStrategy(t *testing.T) {
	const s, beta, tt, eps0, delta0 = 0.2, 1.0, 0.15, 0.1, 1e-3
	type phi = func(theta float64) (slope, curvature float64)
	none := func(float64) (float64, float64) { return 0, 0 }
	line := func(slope float64) phi { return func(float64) (float64, float64) { return slope, 0 } }
	bent := func(least, most, at float64) phi { // slopes between least and most, with a bend of curvature β
		return func(theta float64) (float64, float64) {
			slope := least + beta*(theta-at)
			switch {
			case slope <= least:
				return least, 0
			case slope >= most:
				return most, 0
			}
			return slope, beta
		}
	}
	rising := []phi{line(s), bent(0, s, 0), bent(0, s, 0.6), bent(0, s, -0.6)}
	all := append([]phi{line(-s), bent(-s, s, 0), bent(-s, s, -s), bent(-s, s, 0.6), bent(-s, s, -0.8)}, rising...)
	e := math.Exp(eps0)
	other := []law{{[]float64{eps0, -eps0}, []float64{(1 - delta0) * e / (1 + e), (1 - delta0) / (1 + e)}, delta0}}
	c := math.Log1p(beta)
	for _, monotone := range []bool{false, true} {
		losses, k := all, 3.0
		if monotone {
			losses, k = rising, 3*math.Log2(1.5)
		}
		pairs := map[string][]law{}
		for _, f := range losses {
			pairs["remove"] = append(pairs["remove"], minimizer(f, none))
			pairs["add"] = append(pairs["add"], minimizer(none, f))
			for _, h := range losses {
				pairs["replace"] = append(pairs["replace"], minimizer(f, h))
			}
		}
		without := map[string]float64{}
		for direction, m := range pairs {
			relation, scale := dp.AddRemove, 1.0
			if direction == "replace" {
				relation, scale = dp.Replace, 2
			}
			g := Gaussian{Square: scale*scale*3*s*s + tt*tt, Curvature: 3*c + eps0, Other: eps0, Doublings: k, Delta: delta0}
			for _, stages := range [][][]law{{m, m, m, {gaussianLaw(tt)}, other},
				{other, m, {gaussianLaw(tt)}, m, m}} {
				for _, eps := range testkit.Every(2, []float64{0.1, 0.4, 0.9, 1.5, 2.2}) {
					got := best(eps, stages)
					// 1e-4 is for the grids of losses and of θ.
					require.LessOrEqual(t, got, g.cost(eps, relation)*(1+1e-4)+1e-9, "%s %v %v", direction, eps, monotone)
					weaker := g
					weaker.Doublings = 0
					if direction == "remove" {
						weaker.Curvature = eps0
					}
					without[direction] = max(without[direction], got/weaker.cost(eps, relation))
					// The larger of both directions would hide this one.
					if direction == "add" {
						weaker.Curvature = eps0
						without[direction] = max(without[direction], got/weaker.cost(eps, relation))
					}
				}
			}
		}
		require.Greater(t, without["remove"], 1.001, "C matters")
		require.Greater(t, without["add"], 1.001, "doublings matter")
	}
}

// TestNewTerms checks that the terms of every total are valid, that their filters use what they
// have, and that a total without δ has sums alone.
func TestNewTerms(t *testing.T) {
	for _, relation := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, eps := range []float64{dp.MinEpsilon, 1e-3, 0.1, 1, 8, 100, 1000, dp.MaxEpsilon} {
			for _, delta := range []float64{1e-290, 1e-30, 1e-9, 1e-3, 0.5} {
				terms, err := NewTerms(dp.Budget{Epsilon: eps, Delta: delta}, relation)
				require.NoError(t, err, "%v %v", eps, delta)
				g := *terms.Gaussian
				g.Square *= 1.5
				require.Greater(t, g.cost(eps, relation), delta/4)
				create(t, terms)
				if eps == 1 && delta == 1e-9 {
					require.InDelta(t, 0.545, g.Curvature, 1e-12)
					require.Greater(t, g.Doublings, 10.0)
				}
			}
		}
	}
	terms, err := NewTerms(dp.Budget{Epsilon: 1}, 0)
	require.NoError(t, err)
	require.Equal(t, Terms{Total: dp.Budget{Epsilon: 1}, Relation: dp.Replace}, terms)
	for _, total := range []dp.Budget{{}, {Epsilon: 1, Delta: 2}, {Epsilon: 1, Delta: dp.MinDelta}} {
		_, err := NewTerms(total, dp.Replace)
		require.ErrorIs(t, err, ErrTerms)
	}
	_, err = NewTerms(dp.Budget{Epsilon: 1, Delta: dp.MinDelta}, dp.Replace)
	require.ErrorContains(t, err, "want at least 1e-300 for each of")
	for _, change := range []func(g *Gaussian){
		func(g *Gaussian) { g.Square *= 1.01 }, func(g *Gaussian) { g.Square = math.NaN() },
		func(g *Gaussian) { g.Curvature = 2 }, func(g *Gaussian) { g.Other = g.Curvature * 2 },
		func(g *Gaussian) { g.Doublings += 9 }, func(g *Gaussian) { g.Delta = 1e-6 }, func(g *Gaussian) { g.Failure = 1 },
		func(g *Gaussian) { g.Failure = -1 }, func(g *Gaussian) { g.Curvature = math.Inf(1) },
	} {
		terms := gaussianTerms(dp.AddRemove)
		require.NoError(t, terms.Check())
		change(terms.Gaussian)
		_, err := Create(filepath.Join(t.TempDir(), "l"), terms)
		require.ErrorIs(t, err, ErrTerms)
	}
}

// TestAlone checks that a first release at the whole total is admitted, that nothing but sums
// counts behind it, and that a later release cannot stand alone.
func TestAlone(t *testing.T) {
	total := dp.Budget{Epsilon: 1, Delta: 1e-6}
	terms, err := NewTerms(total, dp.Replace)
	require.NoError(t, err)
	l := create(t, terms)
	_, err = l.Spend(ctx, costs(1.01, 1e-6), nil)
	require.ErrorIs(t, err, ErrOverspent)
	small := gaussian(0.001, 1e-8)
	first := costs(1-small.c.Epsilon, 0.99e-6)
	_, err = l.Spend(ctx, first, nil)
	require.NoError(t, err)
	l, err = Open(l.Path())
	require.NoError(t, err)
	require.True(t, l.Entries()[0].Alone)
	require.Len(t, l.Used(), 2)
	_, err = l.Spend(ctx, small, nil)
	require.NoError(t, err)
	_, err = l.Spend(ctx, small, nil)
	require.ErrorIs(t, err, ErrOverspent)
	require.Len(t, l.Entries(), 2)

	l = create(t, terms)
	_, err = l.Spend(ctx, small, nil)
	require.NoError(t, err)
	require.False(t, l.Entries()[0].Alone)
	_, err = l.Spend(ctx, costs(0.5, 0.9e-6), nil)
	require.ErrorIs(t, err, ErrOverspent)
}

// TestGaussianFile checks what a ledger with a Gaussian filter refuses to read, and that an entry
// without steps, as other versions write it, counts with its budget.
func TestGaussianFile(t *testing.T) {
	terms, err := NewTerms(dp.Budget{Epsilon: 1, Delta: 1e-6}, dp.Replace)
	require.NoError(t, err)
	l := create(t, terms)
	p := stepped{gaussian(0.01, 1e-9), &dp.Steps{Square: 0.0001, Curvature: 0.05, Doublings: 1}}
	for range 2 {
		_, err := l.Spend(ctx, p, nil)
		require.NoError(t, err)
	}
	all := lines(t, l)
	plain := lines(t, create(t, Terms{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}, Orders: terms.Orders}))
	const has = `"steps":{"square":0.0001,"curvature":0.05,"doublings":1}`
	open := func(lines ...[]byte) (*Ledger, error) {
		path := filepath.Join(t.TempDir(), "l")
		require.NoError(t, os.WriteFile(path, resealed(t, lines...), 0o600))
		return Open(path)
	}
	edit := func(line []byte, old, with string) []byte {
		require.Contains(t, string(line), old)
		return []byte(strings.Replace(string(line), old, with, 1))
	}
	for want, text := range map[string][][]byte{
		"it is of version 2":          {edit(all[0], `"ledger":3`, `"ledger":2`)},
		"it is of version 1":          {edit(all[0], `"ledger":3`, `"ledger":1`)},
		"it is of version 3":          {edit(plain[0], `"ledger":2`, `"ledger":3`)},
		"cost δ":                      {edit(all[0], `"square":`, `"square":1`)},
		"without a Gaussian filter":   {plain[0], all[1]},
		"entry 2 stands alone":        {all[0], all[1], edit(all[2], `,"plan"`, `,"alone":true,"plan"`)},
		"Steps.Square = -0.0001":      {all[0], edit(all[1], `"square":0.0001`, `"square":-0.0001`)},
		"Steps.Doublings = -1":        {all[0], edit(all[1], `"doublings":1`, `"doublings":-1`)},
		"Steps.Curvature = -0.05":     {all[0], edit(all[1], `"curvature":0.05`, `"curvature":-0.05`)},
		"want numbers ≥ 0":            {all[0], edit(all[1], `"rdp":[`, `"rdp":[-`)},
		"not written by this version": {all[0], edit(all[1], `"square":0.0001`, `"Squares":0.0001`)},
		"it has 0 values of rdp":      {all[0], regexp.MustCompile(`"rdp":\[[^]]*]`).ReplaceAll(all[1], []byte(`"rdp":[]`))},
		"add-remove neighbors":        {all[0], edit(all[1], `"relation":"replace"`, `"relation":"add-remove"`)},
	} {
		_, err := open(text...)
		require.ErrorIs(t, err, ErrBroken, want)
		require.ErrorContains(t, err, want)
	}
	// Behind an entry that stands alone only the sums count, even if the other filters have room.
	alone, err := open(all[0], edit(all[1], `,"plan"`, `,"alone":true,"plan"`))
	require.NoError(t, err)
	for _, p := range []dp.Plan{steps(1e-9, 0, 0), gaussian(0.001, 0.9999e-6)} {
		_, err = alone.Spend(ctx, p, nil)
		require.ErrorIs(t, err, ErrOverspent)
	}
	_, err = alone.Spend(ctx, costs(0.9, 0.9e-6), nil)
	require.NoError(t, err)

	old, err := open(all[0], edit(all[1], has+",", ""))
	require.NoError(t, err)
	e := old.Entries()[0]
	require.Nil(t, e.Steps)
	require.Equal(t, [6]float64{1: e.Epsilon, 2: e.Epsilon, 4: e.Delta}, terms.Gaussian.charges(e))
	require.Equal(t, e.Epsilon, old.Used()[3].Used)
	require.Equal(t, e.Delta, old.Used()[6].Used)

	for _, bad := range []dp.Steps{{Square: math.NaN()}, {Curvature: -1}, {Doublings: math.Inf(1)}} {
		_, err := l.Spend(ctx, stepped{costs(0.1, 0), &bad}, nil)
		require.ErrorIs(t, err, dp.ErrCondition)
	}
	failing := costs(0.1, 0)
	for _, failing.failure = range []float64{-1, 2, math.NaN()} {
		_, err := l.Spend(ctx, failing, nil)
		require.ErrorIs(t, err, dp.ErrCondition)
	}
}

// TestHugeSteps checks that sums beyond float64 are shown as the largest one.
func TestHugeSteps(t *testing.T) {
	l := create(t, gaussianTerms(dp.Replace))
	for range 3 {
		p := stepped{costs(0.1, 0), &dp.Steps{Square: math.MaxFloat64, Curvature: 1e308, Doublings: 1}}
		_, err := l.Spend(ctx, p, nil)
		require.NoError(t, err, "by the sums of ε")
	}
	require.Equal(t, math.MaxFloat64, l.Used()[2].Used)
	_, err := l.Spend(ctx, steps(1e-9, 0, 0), nil)
	require.ErrorIs(t, err, ErrOverspent)
}

// TestTornSteps checks that an entry that was cut off while it was written is replaced by the next
// one, and that one without its newline counts, in all totals.
func TestTornSteps(t *testing.T) {
	l := create(t, gaussianTerms(dp.Replace))
	total := l.Terms().Gaussian.Square
	for range 2 {
		_, err := l.Spend(ctx, steps(total/4, 0.01, 0.5), nil)
		require.NoError(t, err)
	}
	text, err := os.ReadFile(l.Path())
	require.NoError(t, err)
	start := strings.LastIndexByte(string(text[:len(text)-1]), '\n') + 1
	for end := start; end < len(text); end += 1 + len(text)%2 {
		require.NoError(t, os.WriteFile(l.Path(), text[:end], 0o600))
		torn, err := Open(l.Path())
		require.NoError(t, err)
		had := 1
		if end == len(text)-1 {
			had = 2
		}
		require.Len(t, torn.Entries(), had)
		_, err = torn.Spend(ctx, steps(total/2, 0, 0), nil)
		require.NoError(t, err)
		_, err = torn.Spend(ctx, steps(total/3, 0, 0), nil)
		require.ErrorIs(t, err, ErrOverspent)
		again, err := Open(l.Path())
		require.NoError(t, err)
		require.Equal(t, torn.Entries(), again.Entries())
		require.Equal(t, torn.Used(), again.Used())
	}
}

// TestGaussianUnderTwoNames checks that a ledger with a Gaussian filter is not overspent under two
// names at once.
func TestGaussianUnderTwoNames(t *testing.T) {
	l := create(t, gaussianTerms(dp.AddRemove))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(l.Path(), link))
	share := l.Terms().Gaussian.Square / 10 * (1 - 1e-12)
	p := steps(share, 0, 0)
	p.c.Relation = dp.AddRemove
	done := make(chan int)
	for _, name := range []string{l.Path(), link} {
		go func() {
			n := 0
			for other, err := Open(name); err == nil; n++ {
				_, err = other.Spend(ctx, p, nil)
			}
			done <- n - 1
		}()
	}
	require.Equal(t, 10, <-done+<-done)
	require.NoError(t, l.Verify())
	require.Len(t, l.Entries(), 10)
	require.LessOrEqual(t, l.Used()[2].Used, l.Used()[2].Total)
}

// TestBestOrder compares the order with a search over a grid.
func TestBestOrder(t *testing.T) {
	for _, b := range []dp.Budget{{Epsilon: 0.1, Delta: 1e-9}, {Epsilon: 1, Delta: 1e-6}, {Epsilon: 8, Delta: 1e-9}} {
		most := func(alpha float64) float64 {
			terms := Terms{Total: dp.Budget{Epsilon: b.Epsilon, Delta: b.Delta}}
			return terms.divergence(alpha) / alpha
		}
		x, _ := num.Minimize(func(u float64) float64 { return -most(1 + math.Exp(u)) }, -3, 8, 200, 1e-6)
		require.InEpsilon(t, most(1+math.Exp(x)), most(bestOrder(b)), 1e-3)
	}
}
