package objpert

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// oneHot is n records over blocks of one-hot columns with labels that follow a
// random rule, and OPDisc noise of the given scale.
func oneHot(t testing.TB, n, q int, scale float64, blocks ...int) *Problem {
	r := rand.New(rand.NewPCG(uint64(n), uint64(q)))
	d := 0
	for _, b := range blocks {
		d += b
	}
	rule := make([]float64, d)
	for j := range rule {
		rule[j] = r.NormFloat64()
	}
	rows, labels := make([][]int64, n), make([]int, n)
	for i := range rows {
		rows[i] = make([]int64, d)
		at, score := 0, 0.5*r.NormFloat64()
		for _, b := range blocks {
			j := at + min(r.IntN(b), r.IntN(b))
			rows[i][j] = 1
			score += rule[j]
			at += b
		}
		labels[i] = -1
		if score > 0 {
			labels[i] = 1
		}
	}
	p, err := NewProblem(rows, labels, nil, Lattice(q))
	require.NoError(t, err)
	eta := make([]float64, d+1)
	for j := range eta {
		eta[j] = scale * r.NormFloat64()
	}
	table, norm := sphere(p.Values, q, eta)
	p, err = p.perturbReal(table, norm)
	require.NoError(t, err)
	return p
}

func searches(workers int, gap float64, nodes int64) map[string]Oracle {
	return map[string]Oracle{
		"CellSearch":    CellSearch{Workers: workers, Gap: gap, Nodes: nodes},
		"GenericSearch": GenericSearch{Workers: workers, Gap: gap, Nodes: nodes},
		"Auto":          Auto{Workers: workers, Gap: gap, Nodes: nodes},
	}
}

// TestAgree: the two searches share no bound, and prove the same point.
func TestAgree(t *testing.T) {
	for _, scale := range []float64{1, 20, 200} {
		p := oneHot(t, 400, 9, scale, 5, 4, 3)
		a, err := CellSearch{}.Solve(context.Background(), p)
		require.NoError(t, err)
		b, err := GenericSearch{}.Solve(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, a.W, b.W)
		require.Equal(t, a.Objective, b.Objective)
	}
}

// TestGap: the bracket is as narrow as asked, valid, and the same every time.
func TestGap(t *testing.T) {
	p := oneHot(t, 400, 9, 20, 5, 4, 3)
	exact, err := CellSearch{}.Solve(context.Background(), p)
	require.NoError(t, err)
	for _, gap := range []float64{1e-12, 0.5, 5, 50} {
		for name, o := range searches(2, gap, 0) {
			s, err := o.Solve(context.Background(), p)
			require.NoError(t, err, name)
			require.LessOrEqual(t, s.Objective-s.Lower, gap, name)
			require.LessOrEqual(t, s.Lower, exact.Objective, name)
			require.GreaterOrEqual(t, s.Objective, exact.Objective, name)
			require.Equal(t, p.Objective(s.W), s.Objective, name)
			if s.Proven {
				require.Equal(t, exact.W, s.W, name)
			}
			again, err := o.Solve(context.Background(), p)
			require.NoError(t, err, name)
			require.Equal(t, s, again, name)
		}
	}
}

// TestGapTies: what a search with a gap calls proven is the first minimizer, as
// without: without noise there are many.
func TestGapTies(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	proven := 0
	for range 400 {
		rows, labels, weights, space, _, _ := randomProblem(r)
		p, err := NewProblem(rows, labels, weights, space)
		require.NoError(t, err)
		want, err := Enumerate{}.Solve(context.Background(), p)
		require.NoError(t, err)
		for _, gap := range []float64{0.5, 1, 5} {
			for name, o := range searches(2, gap, 0) {
				s, err := o.Solve(context.Background(), p)
				require.NoError(t, err, name)
				require.LessOrEqual(t, s.Objective-s.Lower, gap, name)
				require.LessOrEqual(t, s.Lower, want.Objective, name)
				if s.Proven {
					proven++
					require.Equal(t, want.W, s.W, name)
				}
			}
		}
	}
	require.Greater(t, proven, 1000)
}

// TestLimitedIsDeterministic: a limit on nodes does not let scheduling decide,
// for OPSamp takes what is found within it.
func TestLimitedIsDeterministic(t *testing.T) {
	p := oneHot(t, 400, 9, 20, 5, 4, 3)
	for name, o := range searches(8, 0, 40) {
		first, err := o.Solve(context.Background(), p)
		require.ErrorIs(t, err, ErrLimit, name)
		for range 20 {
			s, _ := o.Solve(context.Background(), p)
			require.Equal(t, first, s, name)
		}
	}
}

// TestStopped: whenever a search is stopped, its bracket holds.
func TestStopped(t *testing.T) {
	p := oneHot(t, 400, 9, 20, 5, 4, 3)
	exact, err := CellSearch{}.Solve(context.Background(), p)
	require.NoError(t, err)
	last := map[string]float64{}
	for nodes := int64(1); nodes < 1e6; nodes *= 2 {
		for workers := 1; workers <= 2; workers++ {
			for name, o := range searches(workers, 0, nodes) {
				s, err := o.Solve(context.Background(), p)
				if err == nil {
					require.True(t, s.Proven)
					require.Equal(t, exact.W, s.W)
					last[name] = s.Lower
					continue
				}
				require.ErrorIs(t, err, ErrLimit, name)
				if s == nil {
					continue
				}
				require.False(t, s.Proven, name)
				require.LessOrEqual(t, s.Lower, exact.Objective, name)
				require.GreaterOrEqual(t, s.Objective, exact.Objective, name)
				require.Equal(t, p.Objective(s.W), s.Objective, name)
			}
		}
	}
	require.Len(t, last, 3) // the last limits were enough
}

func TestInterrupted(t *testing.T) {
	p := oneHot(t, 4000, 23, 200, 12, 9, 8, 7, 6) // far from solved in a millisecond
	for name, o := range searches(2, 0, 0) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s, err := o.Solve(ctx, p)
		require.Nil(t, s, name)
		require.ErrorIs(t, err, ErrInterrupted, name)
		require.ErrorIs(t, err, context.Canceled, name)

		ctx, cancel = context.WithTimeout(context.Background(), 30*time.Millisecond)
		start := time.Now()
		s, err = o.Solve(ctx, p)
		cancel()
		require.ErrorIs(t, err, ErrInterrupted, name)
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.Less(t, time.Since(start), 5*time.Second, name)
		if s != nil {
			require.False(t, s.Proven)
			require.Less(t, s.Lower, s.Objective)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Enumerate{Points: 1e9}.Solve(ctx, oneHot(t, 10, 6, 1, 4, 4))
	require.ErrorIs(t, err, ErrInterrupted)
}

func TestLimits(t *testing.T) {
	p := oneHot(t, 400, 9, 20, 5, 4, 3)
	_, err := Enumerate{Points: 100}.Solve(context.Background(), p)
	require.ErrorIs(t, err, ErrLimit)
	_, err = CellSearch{Memory: 1000}.Solve(context.Background(), p)
	require.ErrorIs(t, err, ErrLimit)
	dense := denseProblem(t, 50, 5, 5)
	_, err = CellSearch{Combos: 10}.Solve(context.Background(), dense)
	require.ErrorIs(t, err, ErrLimit)
	want, err := Enumerate{}.Solve(context.Background(), dense)
	require.NoError(t, err)
	for _, o := range []Oracle{CellSearch{}, GenericSearch{}, Auto{}} {
		s, err := o.Solve(context.Background(), dense)
		require.NoError(t, err)
		require.Equal(t, want.W, s.W)
	}
	wide := &Problem{Space: Space{Values: interval(100), NormSq: -1}, Dim: 3}
	for _, o := range []Oracle{CellSearch{}, GenericSearch{}} {
		_, err = o.Solve(context.Background(), wide)
		require.ErrorIs(t, err, ErrLimit)
	}
}

// TestOrder: the answer does not depend on the order of the records, and a
// problem perturbed twice reuses what was derived from the records.
func TestOrder(t *testing.T) {
	cases := 2000
	if testing.Short() {
		cases = 500
	}
	r := rand.New(rand.NewPCG(16, 16))
	for i := range cases {
		rows, labels, weights, space, table, norm := randomProblem(r)
		p, err := NewProblem(rows, labels, weights, space)
		require.NoError(t, err)
		var want *Solution
		for range 6 { // 5 permutations each
			q, err := NewProblem(rows, labels, weights, space)
			require.NoError(t, err)
			require.Equal(t, p.X, q.X)
			q, err = q.perturbReal(table, norm)
			require.NoError(t, err)
			s, err := Auto{}.Solve(context.Background(), q)
			require.NoError(t, err)
			s.Nodes = 0
			if want == nil {
				want = s
			}
			require.Equal(t, want, s, i)
			r.Shuffle(len(rows), func(i, j int) {
				rows[i], rows[j] = rows[j], rows[i]
				labels[i], labels[j] = labels[j], labels[i]
				weights[i], weights[j] = weights[j], weights[i]
			})
		}
	}
}

// referee is the definition of the problem in rational numbers, on the records
// as they were given: it shares no code with the package.
type referee struct {
	rows            [][]int64
	labels, weights []int
	space           Space
	noise           *perturbation
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
func extreme(r *rand.Rand, rows [][]int64, weights []int, space Space, table [][]float64, norm []float64) {
	b := int64(space.bound())
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
		sum := maxAbs(norm)
		for _, row := range table {
			sum += maxAbs(row)
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
	cases := 1500
	if testing.Short() {
		cases = 300
	}
	r := rand.New(rand.NewPCG(61, 7))
	ties := 0
	for i := range cases {
		rows, labels, weights, space, table, norm := randomProblem(r)
		for p, err := NewProblem(rows, labels, weights, space); err == nil && p.Points() > 700; { // rational numbers are slow
			rows, labels, weights, space, table, norm = randomProblem(r)
			p, err = NewProblem(rows, labels, weights, space)
		}
		for g := range rows { // some rows share their memory
			rows[g] = slices.Clone(rows[g])
		}
		if i%3 == 0 {
			extreme(r, rows, weights, space, table, norm)
		}
		p, err := NewProblem(rows, labels, weights, space)
		require.NoError(t, err, i)
		p, err = p.perturbReal(table, norm)
		require.NoError(t, err, i)
		rounded, _ := p.real()
		for j := range table {
			for k := range table[j] {
				require.LessOrEqual(t, math.Abs(rounded[j][k]-table[j][k]), math.Ldexp(0.5, -p.perturbation().shift)+0x1p-50*math.Abs(table[j][k]))
			}
		}
		judge := &referee{rows, labels, weights, space, p.perturbation()}
		w, v := judge.minimum()
		want, _ := v.Float64()
		for _, o := range []Oracle{Enumerate{}, CellSearch{Workers: 1}, CellSearch{Workers: 3}, GenericSearch{Workers: 1}, GenericSearch{Workers: 3}, Auto{}} {
			name := fmt.Sprintf("case %d, %T", i, o)
			s, err := o.Solve(context.Background(), p)
			require.NoError(t, err, name)
			require.True(t, s.Proven, name)
			require.Equal(t, w, s.W, name)
			require.Equal(t, want, s.Objective, name)
			require.Equal(t, want, s.Lower, name)
		}
		if table == nil && norm == nil {
			ties++
		}
	}
	require.Greater(t, ties, cases/10)
}

// TestCanceled: wherever a search is canceled, what it returns is a valid
// bracket, and no goroutine stays behind.
func TestCanceled(t *testing.T) {
	cases := 150
	if testing.Short() {
		cases = 40
	}
	r := rand.New(rand.NewPCG(3, 3))
	problems := []*Problem{
		oneHot(t, 400, 9, 20, 5, 4, 3),
		oneHot(t, 300, 9, 0, 5, 4, 3),
		perturbSphere(t, denseProblem(t, 400, 5, 6), 10, "gaussian", 3),
	}
	var best []*Solution
	for _, p := range problems {
		s, err := Auto{}.Solve(context.Background(), p)
		require.NoError(t, err)
		best = append(best, s)
	}
	before := runtime.NumGoroutine()
	stopped := 0
	for i := range cases {
		p, want := problems[i%3], best[i%3]
		for name, o := range searches(1+r.IntN(3), float64(r.IntN(2)), 0) {
			ctx, cancel := context.WithCancel(context.Background())
			timer := time.AfterFunc(time.Duration(math.Exp(7+10*r.Float64())), cancel) // 1 µs to 24 ms
			s, err := o.Solve(ctx, p)
			timer.Stop()
			cancel()
			if err != nil {
				require.ErrorIs(t, err, ErrInterrupted, name)
				require.ErrorIs(t, err, context.Canceled, name)
				stopped++
			}
			if s == nil {
				require.Error(t, err, name)
				continue
			}
			require.LessOrEqual(t, s.Lower, want.Objective, name)
			require.GreaterOrEqual(t, s.Objective, want.Objective, name)
			require.True(t, p.Contains(s.W), name)
			require.Equal(t, p.Objective(s.W), s.Objective, name)
			require.Equal(t, p.Loss(s.W), s.Loss, name)
			if s.Proven {
				require.NoError(t, err, name)
				require.Equal(t, want.W, s.W, name)
			}
		}
	}
	require.Positive(t, stopped)
	for i := 0; runtime.NumGoroutine() > before && i < 5000; i++ { // those of canceled contexts may still be ending
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// TestProcessors: the answer does not depend on how many processors there are.
func TestProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	problems := []*Problem{oneHot(t, 400, 9, 20, 5, 4, 3), oneHot(t, 300, 4, 0, 5, 4, 3), denseProblem(t, 200, 5, 5)}
	for _, p := range problems {
		var want *Solution
		for _, procs := range []int{1, 2, 5} {
			runtime.GOMAXPROCS(procs)
			for _, workers := range []int{0, 1, 2, 7} {
				for name, o := range searches(workers, 0, 0) {
					s, err := o.Solve(context.Background(), p)
					require.NoError(t, err, name)
					require.True(t, s.Proven)
					s.Nodes = 0 // the effort depends on scheduling
					if want == nil {
						want = s
					}
					require.Equal(t, want, s, name)
				}
			}
		}
	}
}

// TestHostile: no literal makes an exported function panic, hang or return a
// point outside its space.
func TestHostile(t *testing.T) {
	cases := 20000
	if testing.Short() {
		cases = 4000
	}
	r := rand.New(rand.NewPCG(8, 8))
	ints := []int{0, 1, -1, 2, 3, -7, 127, 128, maxValue, maxValue + 1, math.MaxInt, math.MinInt, maxNormSq, maxRecords}
	longs := []int64{0, 1, -1, 5, 1 << 40, 1<<61 - 1, math.MaxInt64, math.MinInt64}
	floats := []float64{0, 1, -0.5, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), 0x1p57, 1e-300}
	pick := func(small int) int {
		if r.IntN(4) > 0 {
			return r.IntN(small)
		}
		return ints[r.IntN(len(ints))]
	}
	vector := func(n int) []float64 {
		v := make([]float64, n)
		for k := range v {
			v[k] = floats[r.IntN(len(floats)/(1+r.IntN(3)))]
		}
		return v
	}
	size := func(n int) int { // n, and rarely another
		if r.IntN(12) == 0 {
			return r.IntN(5)
		}
		return n
	}
	solved := 0
	for range cases {
		d := 1 + r.IntN(4)
		p := &Problem{Dim: size(d)}
		if r.IntN(40) == 0 {
			p.Dim = ints[r.IntN(len(ints))]
		}
		if p.Values = interval(r.IntN(3)); r.IntN(4) == 0 {
			p.Values = nil
			for range r.IntN(4) {
				p.Values = append(p.Values, pick(5)-2)
			}
		}
		p.NormSq = pick(6)
		for range r.IntN(4) {
			row := make([]int64, size(d))
			for j := range row {
				row[j] = longs[r.IntN(1+r.IntN(len(longs)))]
			}
			p.X, p.Pos, p.Neg = append(p.X, row), append(p.Pos, pick(3)), append(p.Neg, pick(3))
		}
		if r.IntN(12) == 0 && len(p.Pos) > 0 {
			p.Pos = p.Pos[1:]
		}
		if r.IntN(4) == 0 {
			for range size(d) {
				row := make([]bool, size(len(p.Values)))
				for k := range row {
					row[k] = r.IntN(3) > 0
				}
				p.Allowed = append(p.Allowed, row)
			}
		}
		var table [][]float64
		var norm []float64
		if r.IntN(2) == 0 {
			for range size(d) {
				table = append(table, vector(size(len(p.Values))))
			}
		}
		if r.IntN(4) == 0 && p.NormSq > 0 && p.NormSq < 100 {
			norm = vector(size(p.NormSq + 1))
		}
		if r.IntN(8) == 0 {
			p.OracleLoss = true
		}
		err := p.Check()
		if err == nil {
			if q, e := p.perturbReal(table, norm); e == nil {
				p = q
			}
		}
		if p.Dim < 100 { // it takes time Dim · NormSq
			p.Points()
		}
		p.Records()
		p.Contains(make([]int, d))
		p.Contains(nil)
		_, _ = NewProblem(p.X, p.Pos, p.Neg, p.Space)
		if err == nil && (p.Dim > 100 || p.bound() > 200) {
			continue // ties take Dim searches, each of time Dim, and tables reach as far as weights
		}
		for _, o := range []Oracle{Enumerate{Points: 1e4}, CellSearch{Combos: 1000, Nodes: 300}, GenericSearch{Nodes: 300}, Auto{Nodes: 300}} {
			s, e := o.Solve(context.Background(), p)
			if err != nil {
				require.ErrorIs(t, e, ErrProblem)
				require.Nil(t, s)
				continue
			}
			if e != nil {
				require.ErrorIs(t, e, ErrLimit)
			}
			if s != nil {
				solved++
				require.True(t, p.Contains(s.W))
				require.Equal(t, p.Objective(s.W), s.Objective)
				require.LessOrEqual(t, s.Lower, s.Objective)
			}
		}
	}
	require.Greater(t, solved, cases/4)
}

// TestDeadEnds: a space whose last coordinates need the whole norm has one
// point and 3²⁴ ways to begin; no oracle tries them.
func TestDeadEnds(t *testing.T) {
	const d = 48
	p := &Problem{Space: Space{Values: interval(1), NormSq: d / 2}, Dim: d}
	want := make([]int, d)
	row := make([]int64, d)
	for j := range d {
		row[j] = int64(j - d/3)
		p.Allowed = append(p.Allowed, []bool{j < d/2, j < d/2, true})
		want[j] = j / (d / 2)
	}
	p.X, p.Pos, p.Neg = [][]int64{row}, []int{1}, []int{0}
	require.Equal(t, 1.0, p.Points())
	for _, o := range []Oracle{Enumerate{}, CellSearch{}, GenericSearch{}, Auto{}} {
		s, err := o.Solve(context.Background(), p)
		require.NoError(t, err)
		require.Equal(t, want, s.W)
		require.True(t, s.Proven)
	}
}

// TestChangedCopy: a copy of a problem that is given other rows or another
// space is another problem, whatever was derived from the first.
func TestChangedCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 9))
	for range 200 {
		rows, labels, weights, space, table, norm := randomProblem(r)
		p, err := NewProblem(rows, labels, weights, space)
		require.NoError(t, err)
		p, err = p.perturbReal(table, norm)
		require.NoError(t, err)
		oracles := []Oracle{CellSearch{}, GenericSearch{}}
		for _, o := range oracles { // fills the cache
			_, err := o.Solve(context.Background(), p)
			require.NoError(t, err)
		}
		changes := []func(q *Problem){
			func(q *Problem) { q.X = [][]int64{slices.Clone(q.X[0])}; q.Pos, q.Neg = []int{1}, []int{2} },
			func(q *Problem) { q.Pos, q.Neg = q.Neg, q.Pos },
			func(q *Problem) { q.Values = slices.Clone(q.Values); q.Values[0]-- },
		}
		for _, change := range changes {
			q := *p
			change(&q)
			for _, o := range oracles {
				want, refused := Enumerate{Points: 1e6}.Solve(context.Background(), &q)
				s, err := o.Solve(context.Background(), &q)
				if refused != nil {
					require.Error(t, err)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, want.W, s.W)
				require.Equal(t, want.Objective, s.Objective)
			}
		}
	}
}

// TestMany: more values than a search takes are enumerated while they are few.
func TestMany(t *testing.T) {
	p := &Problem{Space: Space{Values: interval(100), NormSq: -1}, Dim: 1, X: [][]int64{{3}}, Pos: []int{2}, Neg: []int{5}}
	s, err := Auto{}.Solve(context.Background(), p)
	require.NoError(t, err)
	require.Equal(t, []int{-100}, s.W)
	require.Equal(t, 2, s.Loss)
	p.Dim, p.X = 2, [][]int64{{3, 1}}
	_, err = Auto{}.Solve(context.Background(), p)
	require.ErrorIs(t, err, ErrLimit)
	start := time.Now() // 5·10¹⁰ steps to count the points, were they all counted
	_, err = Auto{}.Solve(context.Background(), &Problem{Space: Lattice(maxNormSq), Dim: 23})
	require.ErrorIs(t, err, ErrLimit)
	require.Less(t, time.Since(start), 5*time.Second)
}

// randomProblem draws a small problem of any kind that an oracle may meet:
// one-hot, dense, mixed, duplicated and scaled rows, one label only, zero,
// tiny, integer and huge noise, balls, products, forbidden values.
func randomProblem(r *rand.Rand) (rows [][]int64, labels, weights []int, space Space, table [][]float64, norm []float64) {
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
	space = Space{Values: interval(b), NormSq: -1}
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
	return rows, labels, weights, space, table, norm
}

// TestFuzz compares every search with complete enumeration, and again after the
// records were shuffled.
func TestFuzz(t *testing.T) {
	cases := 2000
	if testing.Short() {
		cases = 700
	}
	r := rand.New(rand.NewPCG(6, 1))
	ctx := context.Background()
	cells := 0
	for i := range cases {
		rows, labels, weights, space, table, norm := randomProblem(r)
		p, err := NewProblem(rows, labels, weights, space)
		require.NoError(t, err)
		p, err = p.perturbReal(table, norm)
		require.NoError(t, err)
		want, err := Enumerate{}.Solve(ctx, p)
		require.NoError(t, err)
		r.Shuffle(len(rows), func(i, j int) {
			rows[i], rows[j] = rows[j], rows[i]
			labels[i], labels[j] = labels[j], labels[i]
			weights[i], weights[j] = weights[j], weights[i]
		})
		shuffled, err := NewProblem(rows, labels, weights, space)
		require.NoError(t, err)
		shuffled, err = shuffled.perturbReal(table, norm)
		require.NoError(t, err)
		oracles := []Oracle{CellSearch{Workers: 1}, CellSearch{Workers: 2}, GenericSearch{Workers: 1}, GenericSearch{Workers: 2}, Auto{}}
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
