package noise_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// suites are the conformance suites: they make random test points and no release. The files are those of experiments
// that draw records; the rest of their package is under the rules.
var suites = map[string]bool{
	"dp/dptest": true, "erm/ermtest": true, "loss/losstest": true,
	"prox/proxtest":                       true,
	"cmd/internal/experiment/coverage.go": true, "cmd/internal/experiment/lowbits.go": true,
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
			chacha := strings.HasSuffix(sel.Sel.Name, "ChaCha8") && (pkg == "noise" || solverSources[pkg])
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
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		name := d.Name()
		if d.IsDir() {
			if path != ".." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata") {
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
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		if suites[pkg] || suites[pkg+"/"+name] {
			return nil
		}
		for _, fault := range noiseRules(fset, file, pkg) {
			t.Error(fault)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 5)
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
