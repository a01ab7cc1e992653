// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/testkit"
)

// instance is one problem of testdata/oracle.json; see its field "about".
type instance struct {
	Name      string
	Mechanism string
	X         [][]int64
	Y         []int
	GroupsX   [][]int64 `json:"groups_x"`
	GroupsPos []int     `json:"groups_pos"`
	GroupsNeg []int     `json:"groups_neg"`
	B, D2     int
	Eta       []float64
	Table     [][]float64
	Points    float64
	Objective float64
	Loss      int
	W         []int
}

type golden struct {
	Small, Mid []instance
	Adult      struct {
		Columns  []string
		N        int
		Distinct int `json:"distinct_x"`
		Runs     []struct {
			Eps       float64
			Q, B      int
			Eta       []float64
			Objective float64
			Loss      int
			W         []int
		}
	}
}

func readGolden(t testing.TB) golden {
	raw, err := os.ReadFile("testdata/oracle.json")
	require.NoError(t, err)
	var g golden
	require.NoError(t, json.Unmarshal(raw, &g))
	return g
}

// sphere is the noise of OPDisc: T_j[k] = η_j k/√Q, z[q] = η_{d+1} √(Q-q)/√Q.
func sphere(values []int, q int, eta []float64) (table [][]float64, norm []float64) {
	d, root := len(eta)-1, math.Sqrt(float64(q))
	for j := range d {
		row := make([]float64, len(values))
		for k, v := range values {
			row[k] = eta[j] * float64(v) / root
		}
		table = append(table, row)
	}
	for s := range q + 1 {
		norm = append(norm, eta[d]*math.Sqrt(float64(q-s))/root)
	}
	return table, norm
}

func interval(b int) []int {
	v := make([]int, 2*b+1)
	for k := range v {
		v[k] = k - b
	}
	return v
}

func (in *instance) problem(t testing.TB) *Problem {
	rows, labels := in.X, in.Y
	var weights []int
	for g, x := range in.GroupsX {
		rows = append(rows, x, x)
		labels = append(labels, 1, -1)
		weights = append(weights, in.GroupsPos[g], in.GroupsNeg[g])
	}
	p, err := NewProblem(rows, labels, weights, Space{Values: interval(in.B), NormSq: in.D2})
	require.NoError(t, err)
	table, norm := in.Table, []float64(nil)
	if in.Mechanism == "opdisc" {
		table, norm = sphere(p.space.Values, in.D2, in.Eta)
	}
	p, err = p.perturbReal(table, norm)
	require.NoError(t, err)
	return p
}

func TestGolden(t *testing.T) {
	oracles := map[string]Oracle{"Enumerate": everywhere, "CellSearch": cellFirst(0)}
	g := readGolden(t)
	for _, in := range append(g.Small, g.Mid...) {
		p := in.problem(t)
		for name, o := range oracles {
			t.Run(in.Name+"/"+name, func(t *testing.T) {
				if name == "Enumerate" && size(p) > 1e6 {
					return
				}
				if in.Points > 0 {
					require.Equal(t, int(in.Points), size(p))
				}
				s, err := o.Solve(context.Background(), p)
				require.NoError(t, err)
				require.True(t, s.Proven)
				require.Equal(t, s.Objective, s.Lower)
				require.Equal(t, in.W, s.W)
				require.Equal(t, in.Loss, s.Loss)
				require.InDelta(t, in.Objective, s.Objective, 1e-6) // printed with 6 decimals
				require.Equal(t, s.Objective, p.Objective(s.W))
			})
		}
	}
}

func TestGoldenAdult(t *testing.T) {
	p := adultProblem(t, 23, 23)
	g := readGolden(t).Adult
	require.Equal(t, g.N, p.records())
	require.LessOrEqual(t, len(p.x), g.Distinct)
	for _, run := range g.Runs {
		table, norm := sphere(p.space.Values, run.Q, run.Eta)
		q, err := p.perturbReal(table, norm)
		require.NoError(t, err)
		s, err := cellFirst(0).Solve(context.Background(), q)
		require.NoError(t, err)
		require.True(t, s.Proven)
		require.Equal(t, run.W, s.W)
		require.Equal(t, run.Loss, s.Loss)
		require.InDelta(t, run.Objective, s.Objective, 1e-5) // noise printed with 6 decimals
		t.Logf("eps %v: %d nodes", run.Eps, s.Nodes)
	}
}

// sphereNoise is the noise of OPDisc in d+1 dimensions: radial with mean norm
// (d+1)Δ/ε for law "radial", else Gaussian with the σ that [NRVW20] prints,
// 7Q √(ln 1/δ)/ε at δ = 1/n².
func sphereNoise(d, q int, eps float64, law string, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 77))
	eta := make([]float64, d+1)
	norm := 0.0
	for j := range eta {
		eta[j] = r.NormFloat64()
		norm += eta[j] * eta[j]
	}
	scale := 7 * float64(q) * math.Sqrt(2*math.Log(15682)) / eps
	if law == "radial" {
		gamma := 0.0
		for range d + 1 {
			gamma += r.ExpFloat64()
		}
		scale = gamma * (2*float64(q) + 2*math.Sqrt(float64(q*(q-1)))) / eps / math.Sqrt(norm)
	}
	for j := range eta {
		eta[j] *= scale
	}
	return eta
}

func perturbSphere(t testing.TB, p *Problem, eps float64, law string, seed uint64) *Problem {
	table, norm := sphere(p.space.Values, p.space.NormSq, sphereNoise(p.dim, p.space.NormSq, eps, law, seed))
	q, err := p.perturbReal(table, norm)
	require.NoError(t, err)
	return q
}

// TestAdult proves optima of the experiment; BenchmarkExperiment does all.
func TestAdult(t *testing.T) {
	p := adultProblem(t, 23, 23)
	for _, law := range []string{"radial", "gaussian"} {
		for _, eps := range []float64{0.1, 0.3, 1} {
			s, err := cellFirst(0).Solve(context.Background(), perturbSphere(t, p, eps, law, 0))
			require.NoError(t, err)
			require.True(t, s.Proven)
		}
	}
}

// TestAdultTies: without noise ties are everywhere, and the first point in
// lexicographic order is still found.
func TestAdultTies(t *testing.T) {
	p := adultProblem(t, 23, 4)
	s, err := cellFirst(0).Solve(context.Background(), p)
	require.NoError(t, err)
	require.True(t, s.Proven)
	again, err := cellFirst(1).Solve(context.Background(), p)
	require.NoError(t, err)
	require.Equal(t, s.W, again.W)
	require.Equal(t, float64(s.Loss), s.Objective)
}

// draft is what a problem is made of.
type draft struct {
	rows            [][]int64
	labels, weights []int
	space           Space
	table           [][]float64
	norm            []float64
}

// problem makes the problem with its noise.
func (d *draft) problem(t testing.TB) *Problem {
	t.Helper()
	p, err := NewProblem(d.rows, d.labels, d.weights, d.space)
	require.NoError(t, err)
	p, err = p.perturbReal(d.table, d.norm)
	require.NoError(t, err)
	return p
}

// referee is the definition of the problem in rational numbers, on the records
// as they were given: it shares no code with the package.
type referee struct {
	*draft
	noise *perturbation
}

// value is Σ weight 1[sign of ⟨x, w⟩ is not the label] - Σ_j Table[j][w_j] - Norm[‖w‖²].
func (r *referee) value(w []int) *big.Rat {
	v := new(big.Rat)
	for i, row := range r.rows {
		score := new(big.Int)
		for j, x := range row {
			score.Add(score, new(big.Int).Mul(big.NewInt(x), big.NewInt(int64(w[j]))))
		}
		label := -1
		if score.Sign() > 0 {
			label = 1
		}
		if label != r.labels[i] {
			v.Add(v, new(big.Rat).SetInt64(int64(r.weights[i])))
		}
	}
	sq, gain := 0, new(big.Int)
	for j, x := range w {
		sq += x * x
		gain.Add(gain, big.NewInt(r.noise.table[j][slices.Index(r.space.Values, x)]))
	}
	if r.noise.norm != nil {
		gain.Add(gain, big.NewInt(r.noise.norm[sq]))
	}
	return v.Sub(v, new(big.Rat).SetFrac(gain, new(big.Int).Lsh(big.NewInt(1), uint(r.noise.shift))))
}

// minimum looks at every point; the first in lexicographic order wins a tie.
func (r *referee) minimum() (best []int, value *big.Rat) {
	d := len(r.rows[0])
	w := make([]int, d)
	var walk func(j, sq int)
	walk = func(j, sq int) {
		if r.space.NormSq > 0 && sq > r.space.NormSq {
			return
		}
		if j == d {
			if v := r.value(w); value == nil || v.Cmp(value) < 0 {
				best, value = slices.Clone(w), v
			}
			return
		}
		for k, x := range r.space.Values {
			if r.space.Allowed == nil || r.space.Allowed[j][k] {
				w[j] = x
				walk(j+1, sq+x*x)
			}
		}
	}
	walk(0, 0)
	return best, value
}

// extreme stretches a random problem to the ends of its ranges: scores close to
// 2⁶², counts close to 2²⁹, noise close to 2⁵⁸.
func (d *draft) extreme(r *rand.Rand) {
	rows, weights, table, norm := d.rows, d.weights, d.table, d.norm
	b := int64(d.space.bound())
	if r.IntN(2) == 0 {
		most := int64(1)
		for _, row := range rows {
			sum := int64(0)
			for _, x := range row {
				sum += max(x, -x)
			}
			most = max(most, sum)
		}
		factor := (maxScore/b - 1) / most
		for _, row := range rows {
			for j := range row {
				row[j] *= factor
			}
			if j := r.IntN(len(row)); row[j] != 0 { // no common divisor to take out
				row[j] -= row[j] / max(row[j], -row[j])
			}
		}
	}
	if r.IntN(2) == 0 {
		for i := range weights {
			weights[i] *= maxRecords / (4 * len(weights))
		}
	}
	if r.IntN(2) == 0 {
		sum := floats.Norm(norm, math.Inf(1))
		for _, row := range table {
			sum += floats.Norm(row, math.Inf(1))
		}
		if sum > 0 {
			for _, row := range table {
				for k := range row {
					row[k] *= 0x1p58 / sum / 1.0001
				}
			}
			for k := range norm {
				norm[k] *= 0x1p58 / sum / 1.0001
			}
		}
	}
}

// TestReferee compares every oracle with the definition in rational numbers.
func TestReferee(t *testing.T) {
	cases := testkit.Of(300, 1500)
	r := rand.New(rand.NewPCG(61, 7))
	ties := 0
	for i := range cases {
		d := randomProblem(r)
		for size(d.problem(t)) > 700 { // rational numbers are slow
			d = randomProblem(r)
		}
		for g := range d.rows { // some rows share their memory
			d.rows[g] = slices.Clone(d.rows[g])
		}
		if i%3 == 0 {
			d.extreme(r)
		}
		p := d.problem(t)
		rounded, _ := p.real()
		for j, row := range d.table {
			for k, v := range row {
				require.LessOrEqual(t, math.Abs(rounded[j][k]-v), math.Ldexp(0.5, -p.perturbation().shift)+0x1p-50*math.Abs(v))
			}
		}
		judge := &referee{d, p.perturbation()}
		w, v := judge.minimum()
		want, _ := v.Float64()
		for _, o := range []Oracle{everywhere, cellFirst(1), cellFirst(3), generic(1),
			generic(3), Search{}} {
			name := fmt.Sprintf("case %d, %T", i, o)
			s, err := o.Solve(context.Background(), p)
			require.NoError(t, err, name)
			require.True(t, s.Proven, name)
			require.Equal(t, w, s.W, name)
			require.Equal(t, want, s.Objective, name)
			require.Equal(t, want, s.Lower, name)
		}
		if d.table == nil && d.norm == nil {
			ties++
		}
	}
	require.Greater(t, ties, cases/10)
}

// randomProblem draws a small problem of any kind that an oracle may meet:
// one-hot, dense, mixed, duplicated and scaled rows, one label only, zero,
// tiny, integer and huge noise, balls, products, forbidden values.
func randomProblem(r *rand.Rand) *draft {
	var (
		rows            [][]int64
		labels, weights []int
		table           [][]float64
		norm            []float64
	)
	d := 1 + r.IntN(5)
	n := 1 + r.IntN(30)
	kind := r.IntN(5)
	for range n {
		row := make([]int64, d)
		scale := int64(1 + r.IntN(3)*r.IntN(1000))
		for j := range row {
			switch kind {
			case 0: // dense
				row[j] = int64(r.IntN(41) - 20)
			case 1: // 0/1
				row[j] = int64(r.IntN(2)) * scale
			case 2: // 0/1 and a dense column
				row[j] = int64(r.IntN(2)) * scale
				if j == d-1 {
					row[j] = int64(r.IntN(2001) - 1000)
				}
			case 3: // ternary
				row[j] = int64(r.IntN(3) - 1)
			}
		}
		if kind == 4 { // two blocks of one-hot columns
			row[r.IntN((d+1)/2)] = scale
			row[(d+1)/2-1+r.IntN(d-(d+1)/2+1)] = scale
		}
		rows = append(rows, row)
		labels = append(labels, 2*r.IntN(2)-1)
		weights = append(weights, r.IntN(4))
		if r.IntN(4) == 0 {
			rows, labels, weights = append(rows, row), append(labels, -labels[len(labels)-1]), append(weights, 1)
		}
	}
	if r.IntN(8) == 0 {
		for i := range labels {
			labels[i] = labels[0]
		}
	}
	weights[0] = 1

	b := 1 + r.IntN(3)
	space := Space{Values: interval(b), NormSq: -1}
	switch r.IntN(6) {
	case 0:
		space.Values = []int{-1, 1}
	case 1:
		space.Values = []int{-2, 0, 1, 3}
	case 2:
		space.Values = []int{0, 1}
	}
	if r.IntN(3) > 0 {
		least := 0
		if space.Values[0] == -1 && len(space.Values) == 2 {
			least = d
		}
		space.NormSq = max(1, least) + r.IntN(d*b*b+1)
	}
	if r.IntN(4) == 0 {
		for range d {
			ok := make([]bool, len(space.Values))
			for k, v := range space.Values {
				ok[k] = r.IntN(3) > 0 || v*v <= 1
			}
			space.Allowed = append(space.Allowed, ok)
		}
	}

	draw := func() float64 { return 0 }
	switch scale := []float64{1e-6, 0.3, 3, 30, 1e6, 1e12}[r.IntN(6)]; r.IntN(4) {
	case 0, 1:
		draw = func() float64 { return scale * r.NormFloat64() }
	case 2:
		draw = func() float64 { return float64(r.IntN(5) - 2) }
	}
	switch r.IntN(4) {
	case 0: // no noise at all
	case 1: // a table
		for range d {
			row := make([]float64, len(space.Values))
			for k := range row {
				row[k] = draw()
			}
			table = append(table, row)
		}
	default:
		eta := make([]float64, d+1)
		for j := range eta {
			eta[j] = draw()
		}
		q := space.NormSq
		if q < 0 {
			q = 1
		}
		table, norm = sphere(space.Values, q, eta)
		if space.NormSq < 0 {
			norm = nil
		}
	}
	return &draft{rows, labels, weights, space, table, norm}
}

// TestFuzz compares every search with complete enumeration, and again after the
// records were shuffled, which makes the same problem.
func TestFuzz(t *testing.T) {
	cases := testkit.Of(500, 2000)
	r := rand.New(rand.NewPCG(6, 1))
	ctx := context.Background()
	cells := 0
	for i := range cases {
		d := randomProblem(r)
		p := d.problem(t)
		bare := *p // without noise: fills the cache that p shares
		bare.noise = nil
		_, err := cellFirst(0).Solve(ctx, &bare)
		require.NoError(t, err)
		want, err := everywhere.Solve(ctx, p)
		require.NoError(t, err)
		r.Shuffle(len(d.rows), func(i, j int) {
			d.rows[i], d.rows[j] = d.rows[j], d.rows[i]
			d.labels[i], d.labels[j] = d.labels[j], d.labels[i]
			d.weights[i], d.weights[j] = d.weights[j], d.weights[i]
		})
		shuffled := d.problem(t)
		require.Equal(t, [][]int{p.pos, p.neg}, [][]int{shuffled.pos, shuffled.neg})
		require.Equal(t, p.x, shuffled.x)
		oracles := []Oracle{
			cellFirst(1),
			cellFirst(2),
			generic(1),
			generic(2),
			Search{},
		}
		for _, q := range []*Problem{p, shuffled} {
			for _, o := range oracles {
				name := fmt.Sprintf("case %d, %T", i, o)
				got, err := o.Solve(ctx, q)
				require.NoError(t, err, name)
				require.True(t, got.Proven, name)
				require.Equal(t, want.Objective, got.Objective, name)
				require.Equal(t, want.W, got.W, name)
				require.Equal(t, want.Loss, got.Loss, name)
				require.Equal(t, want.Lower, got.Lower, name)
			}
		}
		if m, err := newCellModel(p, 1<<28); err == nil && len(m.cat) > 1 {
			cells++
		}
	}
	require.Greater(t, cells, cases/3) // the cell search had something to branch on
}
