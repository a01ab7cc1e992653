// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

// falseReject is the probability that a test of a true hypothesis fails, if the
// seed were random; seeds are fixed, so a passing test stays passing.
const falseReject = 1e-6

// ks fails unless x, which it sorts, passes the Kolmogorov-Smirnov test against cdf, with
// Massart's bound P(D > c) ≤ 2 exp(-2 n c²).
func ks(t *testing.T, name string, x []float64, cdf func(float64) float64) {
	t.Helper()
	require.Less(t, distance(x, cdf), math.Sqrt(math.Log(2/falseReject)/(2*float64(len(x)))), name)
}

// distance returns the Kolmogorov-Smirnov distance of x, which it sorts, from cdf.
func distance(x []float64, cdf func(float64) float64) float64 {
	slices.Sort(x)
	n, d := float64(len(x)), 0.
	for i, v := range x {
		f := cdf(v)
		d = max(d, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
	}
	return d
}

// chiSquare fails if counts do not fit the expected ones, cells of fewer than ten
// of which it joins with the next.
func chiSquare(t *testing.T, name string, counts, expected []float64) {
	t.Helper()
	var stat, c, e float64
	cells := 0
	for i := range counts {
		c, e = c+counts[i], e+expected[i]
		if e >= 10 {
			stat += (c - e) * (c - e) / e
			cells++
			c, e = 0, 0
		}
	}
	if e > 0 { // what is left makes the last cell
		stat += (c - e) * (c - e) / max(e, 10)
	}
	require.Greater(t, cells, 1, name)
	require.Less(t, stat, distuv.ChiSquared{K: float64(cells)}.Quantile(1-falseReject), name)
}

func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func words(src rand.Source, n int) []uint64 {
	w := make([]uint64, n)
	for i := range w {
		w[i] = src.Uint64()
	}
	return w
}

func TestSecureSourcesDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for range 1000 {
		for _, w := range words(Secure(), 4) {
			require.False(t, seen[w], "a word of 64 bits repeats: probability below 1e-12")
			seen[w] = true
		}
	}
}

func TestReproducibleNamesItsStream(t *testing.T) {
	name := func(seed uint64, label ...string) string {
		return fmt.Sprint(words(Reproducible(seed, label...), 4))
	}
	require.Equal(t, name(1, "a", "b"), name(1, "a", "b"))
	all := []string{
		name(0), name(1), name(1, ""), name(1, "", ""), name(1, "a"), name(1, "b"),
		name(1, "a", "b"), name(1, "b", "a"), name(1, "ab"), name(1, "a\x00b"), name(2, "a", "b"),
	}
	for i := range all {
		for j := range i {
			require.NotEqual(t, all[i], all[j], "streams %d and %d", i, j)
		}
	}
	// The stream is part of the documented meaning of a seed within a version.
	require.Equal(t, words(Reproducible(1, "a"), 2), words(Reproducible(1, "a"), 2))
}

// TestSourceNeverPrints formats and encodes a source in every way the standard
// library offers and looks for the key in what comes out.
func TestSourceNeverPrints(t *testing.T) {
	for _, src := range []rand.Source{Secure(), Watch(Secure())} {
		prints(t, src)
	}
}

func prints(t *testing.T, src rand.Source) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%b", "%o", "%e", "%t", "%c", "%U"} {
		require.Equal(t, "[secret]", fmt.Sprintf(verb, src), verb)
	}
	require.Equal(t, "[secret]", fmt.Sprint(src))
	require.Equal(t, "[secret]\n", fmt.Sprintln(src))

	// In a field fmt shows at most the address: the same text before and after the state changes.
	holder := struct{ src rand.Source }{src}
	before := fmt.Sprintf("%v %+v %#v %d %x", holder, holder, holder, holder, &holder)
	words(src, 100)
	require.Equal(t, before, fmt.Sprintf("%v %+v %#v %d %x", holder, holder, holder, holder, &holder))
	require.Less(t, len(before), 400)

	for _, v := range []any{src, struct{ Src rand.Source }{src}, map[string]rand.Source{"s": src}} {
		out, err := json.Marshal(v)
		require.NoError(t, err)
		require.Contains(t, string(out), "[secret]")
		require.Less(t, len(out), 40)
	}

	var buf bytes.Buffer
	require.ErrorContains(t, gob.NewEncoder(&buf).Encode(src), "never saved")
	gob.Register(src)
	require.ErrorContains(t, gob.NewEncoder(&buf).Encode(struct{ Src rand.Source }{src}), "never saved")

	buf.Reset()
	slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "src", src)
	slog.New(slog.NewJSONHandler(&buf, nil)).Info("x", "src", src)
	require.Equal(t, 2, bytes.Count(buf.Bytes(), []byte("[secret]")))

	m, ok := src.(interface{ MarshalBinary() ([]byte, error) })
	require.True(t, ok)
	state, err := m.MarshalBinary()
	require.Error(t, err)
	require.Empty(t, state)
	_, ok = src.(interface{ UnmarshalBinary([]byte) error })
	require.False(t, ok, "a state must not be restorable")
	_, ok = src.(interface{ Seed([32]byte) })
	require.False(t, ok, "a secure source must not be reseedable")
	require.Equal(t, "[secret]", src.(fmt.Stringer).String())
	require.Equal(t, "[secret]", fmt.Sprintf("%#v", src))
}

// TestTwoProcessesDiffer starts this test binary twice: a resumed or copied
// program must draw new noise.
func TestTwoProcessesDiffer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	self := func() string {
		out, err := exec.Command("go", "run", "./testdata/draw").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Greater(t, len(out), 16)
		return string(out)
	}
	require.NotEqual(t, self(), self())
}

// FuzzReproducible: streams depend on their labels and on how these are cut.
func FuzzReproducible(f *testing.F) {
	f.Add(uint64(0), "a", "b")
	f.Add(uint64(1), "", "")
	f.Add(uint64(2), "ab", "")
	f.Fuzz(func(t *testing.T, seed uint64, a, b string) {
		x := Reproducible(seed, a, b).Uint64()
		require.Equal(t, x, Reproducible(seed, a, b).Uint64())
		require.NotEqual(t, x, Reproducible(seed, a+b).Uint64())
		require.NotEqual(t, x, Reproducible(seed+1, a, b).Uint64())
	})
}

// cycle is a source that repeats its words from word start on.
type cycle struct {
	words []uint64
	start int
	at    int
}

func (c *cycle) Uint64() uint64 {
	if c.at == len(c.words) {
		c.at = c.start
	}
	c.at++
	return c.words[c.at-1]
}

func TestWatch(t *testing.T) {
	w, plain := Watch(rand.NewPCG(1, 2)), rand.NewPCG(1, 2)
	for range 1_000_000 {
		if w.Uint64() != plain.Uint64() {
			t.Fatal("the words are those of the source")
		}
	}
	require.NoError(t, w.Err())

	for _, period := range []int{1, 2, 3, 7, 1000} {
		for _, start := range []int{0, 1, 5, 2000} {
			c := &cycle{start: start}
			src := rand.NewPCG(3, 4)
			for range start + period {
				c.words = append(c.words, src.Uint64())
			}
			w := Watch(c)
			for range 3 * (start + period) {
				w.Uint64()
			}
			require.ErrorIs(t, w.Err(), ErrSource, "period %d from word %d", period, start)
			require.NotEqual(t, words(w, 8), words(w, 8), "the words of Secure follow")
		}
	}

	for _, u := range []uint64{0, 1, 1<<64 - 1} { // a single draw is enough
		w := Watch(&cycle{words: []uint64{u}})
		Grid(make([]int64, 1), 1, 0, w)
		require.ErrorIs(t, w.Err(), ErrSource)
		require.ErrorIs(t, w.Err(), ErrSource)
	}
}

// banned lists imports that make random draws from a small set of values or
// from a state that everybody knows.
var banned = map[string]string{
	"math/rand":                           "draws come from package noise",
	"golang.org/x/exp/rand":               "draws come from package noise",
	"gonum.org/v1/gonum/stat/distuv":      "its samplers use NormFloat64; package noise samples",
	"gonum.org/v1/gonum/stat/distmat":     "its samplers use NormFloat64; package randmat samples",
	"gonum.org/v1/gonum/stat/distmv":      "its samplers use NormFloat64; package noise samples",
	"gonum.org/v1/gonum/stat/samplemv":    "its samplers use NormFloat64; package noise samples",
	"gonum.org/v1/gonum/stat/sampleuv":    "its samplers use a 53-bit grid; package noise samples",
	"gonum.org/v1/gonum/mathext/prng":     "not a cryptographic source; use noise.Secure or noise.Reproducible",
	"gonum.org/v1/gonum/stat/spatial":     "draws come from package noise",
	"gonum.org/v1/gonum/graph/graphs/gen": "draws come from package noise",
}

// allowedV2 is what may be used of math/rand/v2: the names of a source and of
// integers, permutations and shuffles drawn from one. Global functions and the
// floating-point samplers are not among them.
var allowedV2 = map[string]bool{"Source": true, "Rand": true, "New": true}

// solverSources lists the packages whose randomness only orders the work of a
// solver, never the noise, and which may therefore key a source of their own.
var solverSources = map[string]bool{"splitting": true}

// suites are the conformance suites: they make random test points and no release. The files are
// those of experiments and forecasts that draw records; the rest of their package is under the
// rules.
var suites = map[string]bool{
	"erm/ermtest": true, "loss/losstest": true, "prox/proxtest": true,
	"cmd/research/experiment/coverage.go": true, "cmd/research/experiment/lowbits.go": true,
	"cmd/research/experiment/persons.go": true, "cmd/research/experiment/scores.go": true,
	"cmd/research/audit/linear_cases.go": true, // the sabotage that draws from math/rand is caught
	"examples/ownmechanism":              true,
	"model/outlook.go":                   true, // makes up public rows
}

// bannedMethods draw floating-point numbers on a grid, whatever the receiver.
var bannedMethods = map[string]bool{"NormFloat64": true, "ExpFloat64": true, "NormFloat32": true}

// noiseRules reports what a file draws outside package noise.
func noiseRules(fset *token.FileSet, file *ast.File, pkg string) (faults []string) {
	v2 := ""
	for _, imp := range file.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		if why, ok := banned[path]; ok {
			faults = append(faults, fset.Position(imp.Pos()).String()+": "+path+": "+why)
		}
		if path == "math/rand/v2" {
			v2 = "rand"
			if imp.Name != nil {
				v2 = imp.Name.Name
			}
			if v2 == "." {
				faults = append(faults, fset.Position(imp.Pos()).String()+": dot import of math/rand/v2")
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		at := fset.Position(sel.Pos()).String() + ": "
		if bannedMethods[sel.Sel.Name] {
			faults = append(faults, at+sel.Sel.Name+" has 2³⁹ values: use package noise")
		}
		id, ok := sel.X.(*ast.Ident)
		if ok && v2 != "" && id.Name == v2 && id.Obj == nil && !allowedV2[sel.Sel.Name] {
			chacha := strings.HasSuffix(sel.Sel.Name, "ChaCha8") && (pkg == "internal/noise" || solverSources[pkg])
			key := sel.Sel.Name == "Uint32" && solverSources[pkg]
			if !chacha && !key {
				faults = append(faults, at+"rand."+sel.Sel.Name+": take a rand.Source from the caller or package noise")
			}
		}
		return true
	})
	return faults
}

// TestOnlyNoiseDraws walks every non-test file of the module: privacy noise
// comes from package noise, so nothing else may sample real numbers.
func TestOnlyNoiseDraws(t *testing.T) {
	fset := token.NewFileSet()
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		name := d.Name()
		if d.IsDir() {
			if path != "../.." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		require.NoError(t, err)
		files++
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
		if suites[pkg] || suites[pkg+"/"+name] {
			return nil
		}
		for _, fault := range noiseRules(fset, file, pkg) {
			t.Error(fault)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 200)
}

// TestNoiseRulesBite feeds the rules what they must refuse and what they must allow.
func TestNoiseRulesBite(t *testing.T) {
	for src, faults := range map[string]int{
		`package p; import "math/rand"; var x = rand.Int()`:                                          1,
		`package p; import "gonum.org/v1/gonum/stat/distuv"; var x = distuv.UnitNormal`:              1,
		`package p; import "math/rand/v2"; func f(r *rand.Rand) float64 { return r.NormFloat64() }`:  1,
		`package p; import "math/rand/v2"; var x = rand.NormFloat64()`:                               2,
		`package p; import r "math/rand/v2"; var x = r.Float64()`:                                    1,
		`package p; import "math/rand/v2"; var x = rand.NewPCG(1, 2)`:                                1,
		`package p; import . "math/rand/v2"`:                                                         1,
		`package p; import "math/rand/v2"; var x = rand.NewChaCha8([32]byte{})`:                      1,
		`package p; import "math/rand/v2"; func f(s rand.Source) int { return rand.New(s).IntN(5) }`: 0,
		`package p; import "math"; var x = math.Pi`:                                                  0,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", src, 0)
		require.NoError(t, err)
		require.Len(t, noiseRules(fset, file, "qop"), faults, src)
	}
}
