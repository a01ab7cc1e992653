// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/internal/noise"
)

// A tape reads the bytes of a fuzzer as numbers, mostly small ones and now and
// then a hostile one; 0 at its end.
type tape []byte

func (b *tape) byte() byte {
	if len(*b) == 0 {
		return 0
	}
	v := (*b)[0]
	*b = (*b)[1:]
	return v
}

// below returns a number in [0, n).
func (b *tape) below(n int) int { return int(b.byte()) % n }

var hostileInts = []int{math.MaxInt64, math.MinInt64, math.MaxInt32, -1 << 31, 1 << 40, 1e6, -1}

func (b *tape) int() int {
	v := b.byte()
	if v >= 240 {
		return hostileInts[int(v-240)%len(hostileInts)]
	}
	return int(v%16) - 5
}

var hostileFloats = []float64{
	math.NaN(),
	math.Inf(1),
	math.Inf(-1),
	math.Copysign(0, -1),
	1e308,
	-1e308,
	5e-324,
	1e-300,
	0x1p-51,
	1e6,
	-1,
	1,
}

func (b *tape) float() float64 {
	v := b.byte()
	switch {
	case v >= 224:
		return hostileFloats[int(v-224)%len(hostileFloats)]
	case v >= 200:
		var w [8]byte
		for i := range w {
			w[i] = b.byte()
		}
		return math.Float64frombits(binary.LittleEndian.Uint64(w[:]))
	}
	return float64(int(v)-40) / 16
}

func (b *tape) bool() bool { return b.byte()&1 == 1 }

// space reads a Space that may make no sense.
func (b *tape) space(d int) Space {
	s := Space{Values: [][]int{{-1, 0, 1}, {-1, 1}, {0, 1, 2}, {-3, 0, 5}}[b.below(4)], NormSq: b.int()}
	if b.below(8) == 0 {
		s.Values = nil
		for range b.below(5) {
			s.Values = append(s.Values, b.int())
		}
	}
	if b.below(3) == 0 {
		for range d {
			var row []bool
			for range s.Values {
				row = append(row, b.below(4) > 0)
			}
			s.Allowed = append(s.Allowed, row)
		}
		if b.below(16) == 0 && d > 0 {
			s.Allowed = s.Allowed[1:]
		}
	}
	return s
}

// problem reads a problem that may make no sense, with noise that may not.
func (b *tape) problem() (*Problem, error) {
	d, n := b.below(5), b.below(12)
	space := b.space(d)
	rows, labels, weights := make([][]int64, n), make([]int, n), make([]int, n)
	for i := range rows {
		rows[i] = make([]int64, d)
		for j := range rows[i] {
			rows[i][j] = int64(b.int())
		}
		labels[i], weights[i] = 2*b.below(2)-1, b.below(4)
		if b.below(32) == 0 {
			labels[i], weights[i] = b.int(), b.int()
		}
	}
	if b.bool() {
		weights = nil
	}
	p, err := NewProblem(rows, labels, weights, space)
	if err != nil || b.below(3) == 0 {
		return p, err
	}
	var table [][]float64
	for range d {
		row := make([]float64, len(space.Values))
		for k := range row {
			row[k] = b.float()
		}
		table = append(table, row)
	}
	var norm []float64
	if b.bool() {
		for range max(0, min(space.NormSq+1, 50)) {
			norm = append(norm, b.float())
		}
	}
	return p.perturbReal(table, norm)
}

// seeds adds tapes of hostile and of ordinary bytes.
func seeds(f *testing.F) {
	for i := range 24 {
		src := sample.Reproducible(uint64(i), "tapes")
		b := make([]byte, 40+8*i)
		for j := range b {
			if b[j] = byte(src.Uint64()); i%3 > 0 && b[j] >= 200 { // ordinary
				b[j] -= 100
			}
		}
		f.Add(b)
	}
	f.Add([]byte{})
}

// FuzzProblem: whatever the records, the space and the noise, a problem is
// refused with ErrProblem, or every oracle finds the minimizer that looking at
// every point finds.
func FuzzProblem(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		b := tape(in)
		p, err := b.problem()
		if err != nil {
			require.ErrorIs(t, err, ErrProblem)
			return
		}
		require.NoError(t, p.check())
		points := size(p)
		require.True(t, points >= 0, points)
		if points > 3000 {
			return
		}
		ctx := t.Context()
		want, err := everywhere.Solve(ctx, p)
		for _, o := range []Oracle{Search{}, cellFirst(1), generic(1), generic(2)} {
			got, err2 := o.Solve(ctx, p)
			if err != nil || errors.Is(err2, ErrLimit) {
				require.Error(t, err2, "%T", o)
				require.True(t, errors.Is(err2, ErrProblem) || errors.Is(err2, ErrLimit), "%T: %v", o, err2)
				continue
			}
			require.NoError(t, err2, "%T", o)
			require.Equal(t, want.W, got.W, "%T", o)
			require.Equal(t, want.Objective, got.Objective, "%T", o)
			require.True(t, got.Proven, "%T", o)
		}
		if err == nil {
			require.True(t, p.Contains(want.W))
			require.Equal(t, want.Loss, p.Loss(want.W))
			require.LessOrEqual(t, p.Loss(want.W), p.records())
			require.Equal(t, want.Objective, p.Objective(want.W))
			require.False(t, math.IsNaN(want.Objective) || math.IsInf(want.Objective, 0))
		}
	})
}

// honest fails if a number of the plan is not one, or err is not of a
// documented kind.
func honest(t *testing.T, plan any, err error) bool {
	t.Helper()
	v := reflect.ValueOf(plan)
	if err != nil {
		require.True(t, v.IsNil())
		require.True(t, documented(err), "%v", err)
		return false
	}
	_, err = json.Marshal(v.MethodByName("Params").Call(nil)[0].Interface())
	require.NoError(t, err, "NaN or infinite numbers in %v", plan)
	return true
}

func documented(err error) bool {
	for _, want := range []error{
		ErrMechanism, ErrProblem, ErrLimit, dp.ErrBudget, dp.ErrCondition, dp.ErrRelation, dp.ErrWithheld,
	} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

func (b *tape) budget() dp.Budget {
	v := dp.Budget{Epsilon: 0.25 * float64(1+b.below(16)), Delta: []float64{0, 1e-6, 0.01, 0.5}[b.below(4)]}
	if b.below(4) == 0 {
		v = dp.Budget{Epsilon: b.float(), Delta: b.float()}
	}
	return v
}

// FuzzParams: whatever is declared, calibrations refuse with an error of a
// documented kind or return noise that is finite, positive, within the budget,
// and no smaller for a wider range.
func FuzzParams(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		b := tape(in)
		d := b.below(6)
		if b.below(16) == 0 {
			d = b.int()
		}
		if d > 100 { // tables of d rows
			return
		}
		q := public{Space: b.space(max(0, min(d, 10))), Dim: d, Range: b.float(), Lipschitz: b.float(), Budget: b.budget()}
		if len(q.Values) > 0 && q.NormSq > 1e6 {
			return // arrays of that size are made on purpose
		}
		rel, law := dp.Relation(b.int()), Law(b.int())
		fail := b.float()
		for _, m := range []any{
			&OPDisc{Relation: rel, Law: law, Sigma: b.float(), Failure: fail}, &OPDisc{Relation: rel},
			&Product{Relation: rel, Law: law, Failure: fail}, &Product{Relation: rel},
			&RSPM{Relation: rel, Law: law, Failure: fail}, &RSPM{Relation: rel},
		} {
			p, err := calibrate(m, q)
			if !honest(t, p, err) {
				continue
			}
			require.True(t, p.params.Scale > 0 && !math.IsInf(p.params.Scale, 1), "%+v", p)
			require.True(t, p.params.Shift > 0 && p.params.Noises >= 0, "%+v", p)
			require.NoError(t, p.params.Proved.Check())
			if p.params.Law != PaperSigma && !(p.params.Law == Gaussian && p.params.Proved != q.Budget) {
				require.LessOrEqual(t, p.params.Proved.Epsilon, q.Budget.Epsilon)
				require.LessOrEqual(t, p.params.Proved.Delta, q.Budget.Delta)
			}
			require.NotEmpty(t, p.String())
		}
		s, err := (&OPSamp{
			Relation: rel, Rate: b.float(), Slack: b.float(), Gap: b.float(), Records: b.int(),
			Dim: d, Diameter: b.float(), Lipschitz: b.float(), Convex: b.bool(),
		}).Plan(b.budget())
		if honest(t, s, err) {
			require.NotEmpty(t, s.String())
			s.Vacuous()
		}
	})
}

// FuzzOPDisc: every mechanism on every small problem withholds, refuses or
// releases a finite point, of the space where it is one, and a valid
// certificate; the same one for the same source.
func FuzzOPDisc(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		b := tape(in)
		p, err := b.problem()
		if err != nil || size(p) > 500 || p.records() > 1e6 {
			return
		}
		ctx, budget, rel := t.Context(), b.budget(), dp.Relation(b.int())
		first := func(context.Context, *Problem) ([]int, error) {
			w := make([]int, b.below(6)) // the heuristic may say anything
			for j := range w {
				w[j] = b.int()
			}
			return w, nil
		}
		samples := over(p, OPSamp{Relation: rel, Gap: 1})
		fits := map[string]func() (*dp.Release, error){"samples": func() (*dp.Release, error) {
			pl, err := samples.Plan(budget)
			if err != nil || pl.params.Calls > 30 {
				return nil, err
			}
			return pl.Fit(ctx, &latticeMinimizer{problem: p, oracle: Search{}, gap: pl.params.Gap}, sample.Reproducible(1))
		}}
		for name, m := range map[string]interface {
			Fit(context.Context, *Problem, dp.Budget, rand.Source) (*dp.Release, error)
		}{
			"OPDisc":   &OPDisc{Relation: rel},
			"Gaussian": &OPDisc{Relation: rel, Law: Gaussian},
			"Product":  &Product{Relation: rel},
			"OneSided": &Product{Relation: rel, Law: OneSided},
			"RSPM":     &RSPM{Relation: rel},
			"votes":    &SampleAndAggregate{Relation: rel, Blocks: 3, Heuristic: first},
		} {
			fits[name] = func() (*dp.Release, error) { return m.Fit(ctx, p, budget, sample.Reproducible(1)) }
		}
		for name, fit := range fits {
			r, err := fit()
			if err != nil {
				require.Nil(t, r, name)
				require.True(t, documented(err), "%s: %v", name, err)
				continue
			}
			if r == nil {
				continue
			}
			require.NoError(t, r.Certificate.Check(), name)
			for _, x := range r.Theta {
				require.False(t, math.IsNaN(x) || math.IsInf(x, 0), "%s: %v", name, r.Theta)
			}
			if name == "samples" || name == "box" || name == "votes" {
				continue
			}
			w := make([]int, len(r.Theta))
			for j, x := range r.Theta {
				w[j] = int(x)
			}
			require.True(t, p.Contains(w), "%s: %v", name, r.Theta)
			again, err := fit()
			require.NoError(t, err)
			require.True(t, slices.Equal(r.Theta, again.Theta), name)
		}
	})
}
