package objpert

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	sample "github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
)

// quotient calls visit for every table of the given numbers of choices whose
// rows have minimum 0 and gauge at most n.
func quotient(choices []int, n int64, visit func(eta [][]int64, gauge int64)) {
	eta := make([][]int64, len(choices))
	var walk func(j int, gauge int64)
	walk = func(j int, gauge int64) {
		if j == len(choices) {
			visit(eta, gauge)
			return
		}
		eta[j] = make([]int64, choices[j])
		var row func(k int, left int64)
		row = func(k int, left int64) {
			if k == choices[j] {
				if slices.Min(eta[j]) == 0 {
					walk(j+1, max(gauge, n-left))
				}
				return
			}
			for v := int64(0); v <= left; v++ {
				eta[j][k] = v
				row(k+1, left-v)
			}
		}
		row(0, n)
	}
	walk(0, 0)
}

// kNorm has P ∝ e^{−gauge/t} on tables modulo constants, in all cells with ten
// expected draws or more.
func TestKNormLaw(t *testing.T) {
	draws := testkit.Of(10_000, 50_000)
	for _, c := range []struct {
		choices []int
		t       uint64
	}{{[]int{2}, 3}, {[]int{3}, 2}, {[]int{2, 2}, 2}, {[]int{4}, 1}, {[]int{1, 3, 2}, 1}} {
		// P = e^{−gauge/t}/Z; the truncation at e^{−40} is nothing.
		limit := int64(6 * c.t)
		probs := map[string]float64{}
		z, inside := 0.0, 0.0
		byGauge := map[int64]float64{}
		quotient(c.choices, limit, func(eta [][]int64, gauge int64) {
			w := math.Exp(-float64(gauge) / float64(c.t))
			probs[fmt.Sprint(eta)] = w
			byGauge[gauge]++
		})
		// Counts of tables with gauge ≤ N, Π_j C(N+v,v) − C(N,v), give Z.
		count := func(n int64) float64 {
			p := 1.0
			for _, v := range c.choices {
				b := func(a int64) float64 { return choose(a, v) }
				p *= b(n+int64(v)) - b(n)
			}
			return p
		}
		total := 0.0
		for n := int64(0); n <= limit; n++ {
			total += byGauge[n]
			require.InDelta(t, count(n), total, 0.5, "tables of gauge ≤ %d", n)
		}
		for n := int64(0); n < int64(80*c.t); n++ {
			prev := 0.0
			if n > 0 {
				prev = count(n - 1)
			}
			z += (count(n) - prev) * math.Exp(-float64(n)/float64(c.t))
		}
		counts := map[string]int{}
		src := sample.Reproducible(3, "knorm", fmt.Sprint(c.choices))
		for range draws {
			eta := kNorm(c.choices, c.t, src)
			for _, row := range eta {
				require.Zero(t, slices.Min(row))
			}
			counts[fmt.Sprint(eta)]++
		}
		var got []int
		var want []float64
		rest, keys := draws, make([]string, 0, len(probs))
		for k := range probs {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if p := probs[k] / z; p*float64(draws) >= 10 {
				got, want = append(got, counts[k]), append(want, p)
				inside += p
				rest -= counts[k]
			}
		}
		got, want = append(got, rest), append(want, 1-inside)
		require.Greater(t, len(got), 5)
		_, p := testkit.ChiSquare(got, want)
		require.Greater(t, p, testkit.FalseReject, "choices %v", c.choices)
	}
}

func choose(n int64, k int) float64 {
	if n < int64(k) {
		return 0
	}
	c := 1.0
	for i := range k {
		c *= float64(n-int64(i)) / float64(k-i)
	}
	return c
}

// TestProductFormulas: weights, scales and bounds of Product on choices 1, 2, 4.
func TestProductFormulas(t *testing.T) {
	space := Space{Values: []int{-2, 0, 1, 3}, NormSq: -1, Allowed: [][]bool{
		{false, false, true, false}, {true, true, true, true}, {true, false, true, false},
	}}
	q := Public{Space: space, Dim: 3, Range: 3, Budget: dp.Budget{Epsilon: 0.8}}
	p, err := (&Product{}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 4, p.params.Noises)
	require.Equal(t, 6., p.params.Shift)
	require.GreaterOrEqual(t, p.params.Scale, 6/0.8)
	require.InEpsilon(t, 6/0.8, p.params.Scale, 1e-6)
	h2, h4 := 1.5, 25./12
	spread := h2/2 - 0.25 + h4/4 - 1./16
	require.InEpsilon(t, p.params.Scale*5*spread+4*math.Ldexp(1, p.params.Exponent), p.params.ExcessBound, 1e-13)
	o, err := (&Product{Law: OneSided}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 6, o.params.Noises)
	require.GreaterOrEqual(t, o.params.Scale, 2*6/0.8) // two coordinates have a choice
	require.InEpsilon(t, 2*6/0.8, o.params.Scale, 1e-6)
	require.InEpsilon(t, o.params.Scale*(h2-0.5+h4-0.25)+4*math.Ldexp(1, o.params.Exponent), o.params.ExcessBound, 1e-13)
	require.InEpsilon(t, 137./60, harmonic(5), 1e-15)
	half, err := (&Product{Relation: dp.AddRemove}).Calibrate(q)
	require.NoError(t, err)
	require.Equal(t, 3., half.params.Shift)
	for d, ok := range map[int]bool{maxNoises / 2: true, maxNoises/2 + 1: false} {
		_, err := (&Product{}).Calibrate(Public{Space: ternary(), Dim: d, Range: 1, Budget: dp.Budget{Epsilon: 1}})
		require.Equal(t, ok, err == nil, "%v", err)
	}
}

// TestProductEnds: one coordinate with a choice, and the number of variables.
func TestProductEnds(t *testing.T) {
	q := Public{Space: ternary(), Dim: 1, Range: 1, Budget: dp.Budget{Epsilon: 1}}
	many := func(choices int) Public { // one coordinate
		r := q
		r.Space = Space{NormSq: -1}
		for v := range choices {
			r.Values = append(r.Values, v)
		}
		return r
	}
	for choices, ok := range map[int]bool{maxNoises + 1: true, maxNoises + 2: false} { // one variable less
		_, err := (&Product{Law: OneSided}).Calibrate(many(choices))
		require.Equal(t, ok, err == nil, "%v", err)
	}
	// K-norm noise is as wide as its variables are many, whatever ε allows.
	loud := many(maxNoises)
	loud.Budget.Epsilon = dp.MaxEpsilon
	wide, err := (&Product{}).Calibrate(loud)
	require.NoError(t, err)
	require.GreaterOrEqual(t, wide.params.Time, uint64(2*maxNoises))
	for free := range 3 {
		r := q
		r.Dim = 3
		for j := range 3 {
			r.Allowed = append(r.Allowed, []bool{true, j < free, j < free})
		}
		pl, err := (&Product{Law: OneSided}).Calibrate(r)
		require.NoError(t, err)
		require.InEpsilon(t, 2*math.Max(1, float64(free)), pl.params.Scale, 1e-6)
	}
	p := &Problem{Space: ternary(), Dim: 2, OracleLoss: true}
	pl, err := (&Product{Range: 3}).Plan(p, dp.Budget{Epsilon: 1})
	require.NoError(t, err)
	require.Zero(t, pl.params.Lipschitz)
	// Every value of a coordinate with a choice has noise, a single one has none.
	sums := []int64{0, 0, 0, 0, 0, 0}
	src := sample.Reproducible(4)
	for range 100 {
		i := 0
		for _, row := range oneSided([]int{2, 1, 3}, 5, src) {
			for _, v := range row {
				sums[i] += v
				i++
			}
		}
	}
	require.Zero(t, sums[2])
	for _, i := range []int{0, 1, 3, 4, 5} {
		require.Positive(t, sums[i])
	}
}
