// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
)

// plan is a dp.Plan for tests.
type plan struct {
	c   dp.Certificate
	rdp dp.RDP
	say string

	failure float64
}

func (p plan) Certificate() dp.Certificate { return p.c }
func (p plan) Profile() dp.Profile {
	q := dp.Symmetric(p.c.Budget.Profile().Remove, p.rdp)
	q.Failure = p.failure
	return q
}
func (p plan) String() string { return "a plan for tests" + p.say }

func costs(eps, delta float64) plan {
	return plan{c: dp.Certificate{Budget: dp.Budget{Epsilon: eps, Delta: delta}, Relation: dp.Replace, Theorem: "test/1"}}
}

// gaussian is a plan with a Rényi curve, whose budget is its own at δ.
func gaussian(s, delta float64) plan {
	p := costs(dp.GaussianCurve(s).Epsilon(delta), delta)
	p.rdp = dp.GaussianRDP(s)
	return p
}

func create(t testing.TB, terms Terms) *Ledger {
	l, err := Create(filepath.Join(t.TempDir(), "l"), terms)
	require.NoError(t, err)
	return l
}

var ctx = context.Background()

func TestSpend(t *testing.T) {
	l := create(t, Terms{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}})
	require.Equal(t, dp.Replace, l.Terms().Relation)
	before := l.Head()
	for i := range 10 { // the decimal 0.1 ten times is 1, the float64 is more
		e, err := l.Spend(ctx, costs(0.1, 1e-7), nil)
		require.NoError(t, err)
		require.Equal(t, i+1, e.Number)
		require.Equal(t, l.Head(), e.Hash)
	}
	require.Equal(t, dp.Budget{Epsilon: 1, Delta: 1e-6}, l.Spent())
	_, err := l.Spend(ctx, costs(1e-9, 0), nil)
	require.ErrorIs(t, err, ErrOverspent)
	require.ErrorContains(t, err, "want at most ε = 1 and δ = 1e-06")
	require.Len(t, l.Entries(), 10)

	again, err := Open(l.Path())
	require.NoError(t, err)
	require.Equal(t, l.Entries(), again.Entries())
	require.NoError(t, again.Verify(before, l.Head(), l.Entries()[4].Hash))
	require.ErrorIs(t, again.Verify(strings.Repeat("0", 64)), ErrBehind)
}

func TestSpendRefuses(t *testing.T) {
	l := create(t, Terms{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}, Relation: dp.AddRemove})
	ok := costs(0.5, 0)
	ok.c.Relation = dp.AddRemove
	seeded := ok
	seeded.c.Assumptions = []dp.Assumption{dp.CallerSource}
	persons := ok
	persons.c.Rows = 5
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		p    dp.Plan
		src  rand.Source
		want error
	}{
		{ctx, ok, rand.NewPCG(1, 1), ErrSeeded},
		{ctx, seeded, nil, ErrSeeded},
		{ctx, costs(0.5, 0), nil, dp.ErrRelation},
		{ctx, plan{}, nil, dp.ErrBudget},
		{ctx, nil, nil, dp.ErrCondition},
		{ctx, plan{c: dp.Certificate{Budget: dp.Budget{Epsilon: 1}, Relation: dp.AddRemove}}, nil, dp.ErrCondition},
		{ctx, persons, nil, dp.ErrRelation},
		{canceled, ok, nil, ErrBusy},
	} {
		_, err := l.Spend(c.ctx, c.p, c.src)
		require.ErrorIs(t, err, c.want)
	}
	require.Empty(t, l.Entries())
	_, err := l.Spend(ctx, ok, nil)
	require.NoError(t, err)
}

// A ledger is about persons or about records, and its entries say how many lines count.
func TestPersons(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	l, err := Create(path, Terms{Total: dp.Budget{Epsilon: 1}, Persons: true})
	require.NoError(t, err)
	persons := costs(0.5, 0)
	_, err = l.Spend(ctx, persons, nil)
	require.ErrorIs(t, err, dp.ErrRelation)
	persons.c.Rows = 20
	e, err := l.Spend(ctx, persons, nil)
	require.NoError(t, err)
	require.Equal(t, 20, e.Rows)
	require.NoError(t, l.Commit(ctx, e.Hash, []byte("one")))
	again, err := Open(path)
	require.NoError(t, err)
	require.True(t, again.Terms().Persons)
	require.Equal(t, 20, again.Entries()[0].Rows)
	require.NoError(t, again.VerifyFile(e.Hash, persons.c, []byte("one")))
	for _, rows := range []int{0, 19} {
		persons.c.Rows = rows
		require.ErrorIs(t, again.VerifyFile(e.Hash, persons.c, []byte("one")), ErrMismatch)
	}
}

// The first entry fixes the column whose ids are persons. Version 0.2.0 named none, and no column
// is added to such a ledger.
func TestColumnOfPersons(t *testing.T) {
	patients, visits, unnamed := costs(0.1, 0), costs(0.1, 0), costs(0.1, 0)
	for i, p := range []*plan{&patients, &visits, &unnamed} {
		p.c.Rows, p.c.Person = 5, []string{"patient", "visit", ""}[i]
	}
	for _, first := range []plan{patients, unnamed} {
		l := create(t, Terms{Total: dp.Budget{Epsilon: 1}, Persons: true})
		e, err := l.Spend(ctx, first, nil)
		require.NoError(t, err)
		require.Equal(t, first.c.Person, e.Person)
		other, err := Open(l.Path())
		require.NoError(t, err)
		for _, p := range []plan{patients, visits, unnamed} {
			_, err := other.Spend(ctx, p, nil)
			if p.c.Person == first.c.Person {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, dp.ErrRelation)
			require.ErrorContains(t, err, "another ledger")
		}
		require.Len(t, other.Entries(), 2)
		require.NoError(t, l.Commit(ctx, e.Hash, []byte("one")))
		require.ErrorIs(t, l.VerifyFile(e.Hash, visits.c, []byte("one")), ErrMismatch)
		// Nor is a file accepted whose entries differ.
		text, err := os.ReadFile(l.Path())
		require.NoError(t, err)
		second := other.Entries()[1]
		second.Number, second.Nonce, second.Person = 3, bits(), "visit"
		s, err := parse(text)
		require.NoError(t, err)
		line, _, err := seal(second, s.head())
		require.NoError(t, err)
		_, err = parse(append(text, line...))
		require.ErrorIs(t, err, ErrBroken)
		require.ErrorContains(t, err, `it is about persons by the column "visit"`)
	}
}

func TestCreateRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	for _, terms := range []Terms{
		{}, {Total: dp.Budget{Epsilon: 1}, Relation: 7}, {Total: dp.Budget{Epsilon: math.NaN()}},
		{Total: dp.Budget{Epsilon: 1}, Orders: []float64{2}},
		{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}, Orders: []float64{1}},
		{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}, Orders: []float64{3, 2}},
		{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}, Orders: []float64{math.NaN()}},
		{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}, Orders: []float64{math.Inf(1)}},
		{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}, Orders: make([]float64, 65)},
	} {
		_, err := Create(path, terms)
		require.ErrorIs(t, err, ErrTerms)
	}
	_, err := Open(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	good := Terms{Total: dp.Budget{Epsilon: 1}}
	_, err = Create(path, good)
	require.NoError(t, err)
	_, err = Create(path, good)
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = Create(filepath.Join(path, "no", "folder"), good)
	require.Error(t, err)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1) // no temporary file, and no file to lock
}

// A Rényi curve holds but for rare events of the noise, for which a share of the filter's δ is
// kept.
func TestRenyiFilterPaysForFailures(t *testing.T) {
	total := dp.Budget{Epsilon: 1, Delta: 1e-6}
	terms := Terms{Total: total, Orders: []float64{100}}
	p := gaussian(0.001, 1e-6) // more δ than the filter of sums has
	p.failure = 1e-11
	l := create(t, terms)
	path, n := l.Path(), 0
	for ; n < 100; n++ {
		if _, err := l.Spend(ctx, p, nil); err != nil {
			require.ErrorIs(t, err, ErrOverspent)
			break
		}
	}
	require.Positive(t, n)
	require.LessOrEqual(t, float64(n)*(1+math.E)*p.failure, total.Delta/2/1024)
	require.Greater(t, float64(n+1)*(1+math.E)*p.failure, total.Delta/2/1024*(1-1e-9))
	again, err := Open(path)
	require.NoError(t, err)
	_, err = again.Spend(ctx, p, nil)
	require.ErrorIs(t, err, ErrOverspent)
	p.failure = 0
	_, err = create(t, terms).Spend(ctx, p, nil)
	require.NoError(t, err)

	// Outputs may choose between a run that spends all on its curve and one that spends all on
	// failures: the most that either may cost adds up to the δ of the filter.
	most := func(of func(v float64) spent) float64 {
		lo, hi := 0.0, 1.0
		for range 100 {
			if of((lo+hi)/2).renyi(terms) <= total.Epsilon {
				lo = (lo + hi) / 2
			} else {
				hi = (lo + hi) / 2
			}
		}
		return lo
	}
	v := most(func(v float64) spent { return spent{rdp: []float64{v}} })
	f := most(func(f float64) spent { return spent{rdp: []float64{0}, failure: f} })
	require.Positive(t, f)
	delta := math.Exp(99*(v-1)) * math.Pow(0.99, 99) / 100 // [CKS20]
	require.LessOrEqual(t, delta+(1+math.E)*f, total.Delta/2)
	require.Greater(t, delta, total.Delta/2*0.99)
}

// A Rényi filter admits more small releases than basic composition, exactly as
// many as its formula says, and none that the formula refuses.
func TestRenyiFilter(t *testing.T) {
	const s, delta = 0.02, 1e-8 // so small that δ/2 instead of δ costs some releases
	total := dp.Budget{Epsilon: 1, Delta: 1e-6}
	spendAll := func(orders []float64) int {
		l := create(t, Terms{Total: total, Orders: orders})
		for n := 0; ; n++ {
			if _, err := l.Spend(ctx, gaussian(s, delta), nil); err != nil {
				require.ErrorIs(t, err, ErrOverspent)
				return n
			}
		}
	}
	basic := spendAll(nil)
	require.Equal(t, int(1/gaussian(s, delta).c.Epsilon), basic)
	got := spendAll([]float64{30})
	rule := func(n float64) float64 { // [CKS20] at δ/2
		return n*30*s*s/2 + math.Log1p(-1./30) - (math.Log(0.5e-6)+math.Log(30))/29
	}
	require.LessOrEqual(t, rule(float64(got)), 1.0)
	require.Greater(t, rule(float64(got+1)), 1.0-1e-9)
	require.Greater(t, got, 3*basic)
	require.Equal(t, got, spendAll([]float64{30})) // deterministic
	three := spendAll([]float64{10, 30, 60})
	require.LessOrEqual(t, three, got)
	require.Greater(t, three, basic)

	// The share of δ is what a release after the first one may have.
	l := create(t, Terms{Total: total, Orders: []float64{30}})
	_, err := l.Spend(ctx, gaussian(s, delta), nil)
	require.NoError(t, err)
	_, err = l.Spend(ctx, costs(0.5, 0.6e-6), nil)
	require.ErrorIs(t, err, ErrOverspent)
	// A release without a curve leaves only basic composition.
	_, err = l.Spend(ctx, costs(0.5, 0.25e-6), nil)
	require.NoError(t, err)
	require.Nil(t, l.Entries()[1].RDP)
	for range 2 {
		_, err = l.Spend(ctx, gaussian(s, delta), nil)
		require.NoError(t, err)
	}
	_, err = l.Spend(ctx, costs(0.4, 0), nil)
	require.ErrorIs(t, err, ErrOverspent)
	// Pure releases have the curve of their budget.
	l = create(t, Terms{Total: total, Orders: []float64{30}})
	for range 200 {
		_, err = l.Spend(ctx, costs(0.01, 0), nil)
		require.NoError(t, err)
	}
	require.Greater(t, l.Spent().Epsilon, 1.9)
}

// Every edit of every byte is refused, so are lines that are removed, repeated
// or exchanged; only a cut at the end of a line needs a recorded head.
func TestEdits(t *testing.T) {
	terms, err := NewTerms(dp.Budget{Epsilon: 1, Delta: 1e-6}, dp.Replace)
	require.NoError(t, err)
	l := create(t, terms)
	for range 3 {
		e, err := l.Spend(ctx, gaussian(0.01, 1e-8), nil)
		require.NoError(t, err)
		if e.Number == 3 {
			require.NoError(t, l.Commit(ctx, l.Entries()[0].Hash, []byte("one")))
		}
	}
	text, err := os.ReadFile(l.Path())
	require.NoError(t, err)
	refused := func(edited []byte) {
		t.Helper()
		require.NoError(t, os.WriteFile(l.Path(), edited, 0o600))
		_, err := Open(l.Path())
		require.ErrorIs(t, err, ErrBroken)
		require.ErrorIs(t, l.Verify(), ErrBroken)
		_, err = l.Spend(ctx, costs(0.1, 0), nil)
		require.ErrorIs(t, err, ErrBroken)
		now, err := os.ReadFile(l.Path())
		require.NoError(t, err)
		require.Equal(t, edited, now)
	}
	for i := range text {
		edited := bytes.Clone(text)
		edited[i] ^= 1 << (i % 7)
		refused(edited)
	}
	lines := bytes.SplitAfter(text, []byte{'\n'})
	join := func(k ...int) (out []byte) {
		for _, i := range k {
			out = append(out, lines[i]...)
		}
		return out
	}
	for _, k := range [][]int{{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2, 2, 3}, {0, 2, 1, 3}, {0, 1, 2, 3, 3},
		{0, 0, 1, 2, 3},
		{0, 4, 1, 2, 3}, {0, 1, 4, 2, 3}, {0, 1, 2, 3, 4, 4}} {
		refused(join(k...))
	}
	refused([]byte{})
	refused(append(bytes.Clone(text), "\n"...))
	refused(append(bytes.Clone(text), "{}"...))

	require.NoError(t, os.WriteFile(l.Path(), join(0, 1, 2), 0o600))
	cut, err := Open(l.Path())
	require.NoError(t, err)
	require.ErrorIs(t, cut.Verify(l.Head()), ErrBehind)
	require.ErrorIs(t, l.Verify(), ErrBehind) // this one has seen more
	_, err = l.Spend(ctx, costs(0.1, 0), nil)
	require.ErrorIs(t, err, ErrBehind)
}

// A crash while an entry is written leaves a beginning of it. It is cut away by
// the next entry; one that lacks only its newline counts.
func TestTornLine(t *testing.T) {
	l := create(t, Terms{Total: dp.Budget{Epsilon: 1}})
	for _, say := range []string{"", strings.Repeat(" and more", 20)} { // the torn line is longer than the next
		p := costs(0.25, 0)
		p.say = say
		_, err := l.Spend(ctx, p, nil)
		require.NoError(t, err)
	}
	text, err := os.ReadFile(l.Path())
	require.NoError(t, err)
	start := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for end := start; end < len(text); end++ {
		require.NoError(t, os.WriteFile(l.Path(), text[:end], 0o600))
		torn, err := Open(l.Path())
		require.NoError(t, err)
		had := 1
		if end == len(text)-1 {
			had = 2
		}
		require.Len(t, torn.Entries(), had)
		_, err = torn.Spend(ctx, costs(0.5, 0), nil)
		require.NoError(t, err)
		_, err = torn.Spend(ctx, costs(0.5, 0), nil)
		require.ErrorIs(t, err, ErrOverspent)
		again, err := Open(l.Path())
		require.NoError(t, err)
		require.Equal(t, torn.Entries(), again.Entries())
		require.Len(t, again.Entries(), had+1)
	}
}

// Goroutines and ledgers that share a file never spend more than there is.
func TestConcurrentSpend(t *testing.T) {
	l := create(t, Terms{Total: dp.Budget{Epsilon: 1}})
	var wg sync.WaitGroup
	for range 4 {
		other, err := Open(l.Path())
		require.NoError(t, err)
		for _, l := range []*Ledger{l, other} {
			wg.Go(func() {
				for range 5 {
					if _, err := l.Spend(ctx, costs(0.05, 0), nil); err != nil {
						require.ErrorIs(t, err, ErrOverspent)
					}
				}
			})
		}
	}
	wg.Wait()
	require.NoError(t, l.Verify())
	require.Len(t, l.Entries(), 20)
}

// TestMain lets the test binary stand in for another process.
func TestMain(m *testing.M) {
	switch path := os.Getenv("LEDGER_TEST_CHILD"); {
	case os.Getenv("LEDGER_TEST_RACER") != "":
		race(bufio.NewScanner(os.Stdin))
	case path != "":
		spendForever(path)
	default:
		os.Exit(m.Run())
	}
}

// spendForever is the child of TestKill: it spends, releases by a line of the hash that it got, and
// commits to that line.
func spendForever(path string) {
	out, err := os.OpenFile(path+".releases", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	for {
		l, err := Open(path)
		if err != nil {
			panic(err)
		}
		e, err := l.Spend(ctx, costs(1e-6, 0), nil)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(out, e.Hash)
		if err := l.Commit(ctx, e.Hash, []byte(e.Hash)); err != nil {
			panic(err)
		}
	}
}

// kill −9 a hundred times, two processes at once: every release has its entry,
// no entry that was ever seen is lost, and no file belongs to two entries.
func TestKill(t *testing.T) {
	rounds := testkit.Of(15, 100)
	l := create(t, Terms{Total: dp.Budget{Epsilon: 1}})
	rnd := rand.New(rand.NewPCG(1, 1))
	released := func() string {
		text, _ := os.ReadFile(l.Path() + ".releases") // none before the first child
		return string(text)
	}
	for round := 0; round < rounds || released() == ""; round++ { // a busy machine may need more rounds for a release
		rounds = max(rounds, round+1)
		var children []*exec.Cmd
		for range 2 {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), "LEDGER_TEST_CHILD="+l.Path())
			var errs bytes.Buffer
			child.Stderr = &errs
			out, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			if _, err = bufio.NewReader(out).ReadString('\n'); err != nil {
				child.Wait() // then nothing writes errs any more
				require.NoError(t, err, errs.String())
			}
			children = append(children, child)
		}
		time.Sleep(time.Duration(rnd.IntN(20_000)) * time.Microsecond)
		for _, child := range children {
			require.NoError(t, child.Process.Kill())
			require.ErrorContains(t, child.Wait(), "killed") // and not by an error of its own
		}
		require.NoError(t, l.Verify()) // all entries seen in earlier rounds are there
	}
	releases := strings.Fields(released())
	entries := map[string]bool{}
	committed := 0
	for _, e := range l.Entries() {
		entries[e.Hash] = true
		if e.File != "" {
			require.Equal(t, fileDigest([]byte(e.Hash)), e.File)
			committed++
		}
	}
	for _, hash := range releases {
		require.True(t, entries[hash], "a release without an entry")
		delete(entries, hash) // and no two of one
	}
	require.LessOrEqual(t, len(entries), 2*rounds)            // crashed between entry and release
	require.LessOrEqual(t, len(releases)-committed, 2*rounds) // or between release and commitment
	require.LessOrEqual(t, committed, len(releases))
	t.Logf("%d releases, %d committed, %d entries without one, %d kills", len(releases), committed, len(entries), 2*rounds)
}
