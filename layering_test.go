// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/privopt/privopt"

// layer is the architecture: a package may import packages of lower layers only, never of its own
// or a higher one. Commands may import everything, and nothing outside of cmd can import
// cmd/internal. The laboratory in cmd/research is a module of its own.
var layer = map[string]int{
	"internal/testkit":   -1,
	"internal/wholefile": -1,
	"internal/prefix":    -2, // imports the standard library only
	"internal/enclose":   -2, // imports internal/fault
	"internal/kernel":    -1,
	"internal/num":       -2,
	"dp/internal/pld":    -1,
	"internal/noise":     -1,
	"dp":                 0,
	"internal/linear":    1,
	"internal/lop":       2,
	"prox":               0,
	"loss":               0,
	"randmat":            0,
	"internal/fault":     -3, // imports the standard library only
	"splitting":          1,
	"erm":                1,
	"table/npy":          1,
	"internal/release":   1,
	"qop":                2,
	"lop":                2,
	"sco":                2,
	"lasso":              2,
	"table":              2,
	"dp/ledger":          3, // its file lock is a library
	"table/parquet":      3, // its format is a library, which the commands alone link
	"model":              4,
	"model/score":        5,
	"objpert":            2,
	"additive":           2,
	"prox/proxtest":      5, // test suites may use what they test
	"erm/ermtest":        5,
	"dp/dptest":          5,
	"loss/losstest":      5,
}

// sameLayer lists the sideways edges that are allowed, with the reason.
var sameLayer = map[[2]string]string{
	{"lop", "internal/lop"}:           "lop is its public door",
	{"sco", "internal/lop"}:           "objective perturbation for the population is that of lop with another weight Δ",
	{"sco", "lop"}:                    "and has its plans",
	{"internal/release", "erm"}:       "the loop that solves and certifies is where the two meet",
	{"internal/release", "splitting"}: "the loop that solves and certifies is where the two meet",
}

// once lists expressions that stand in one place only, outside of tests, with the files.
var once = map[string][]string{
	"noise.Watch(": {"internal/release/draw.go"},                    // one source of a release
	"1 << 61":      {"internal/release/draw.go", "objpert/plan.go"}, // one clamp; objpert saturates its tables too
}

// TestOnce: the randomness of a release, where mistakes cost privacy, is written once.
func TestOnce(t *testing.T) {
	found := map[string][]string{}
	sources(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "internal/noise/") {
			return
		}
		for what := range once {
			for range strings.Count(text, what) {
				found[what] = append(found[what], name)
			}
		}
	})
	require.Equal(t, once, found)
}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func TestLayering(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	require.NoError(t, err)
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		require.NoError(t, dec.Decode(&p))
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if name == "" {
			continue
		}
		if strings.HasPrefix(name, "cmd/") {
			seen++
			continue
		}
		from, ok := layer[name]
		if !ok {
			t.Errorf("package %s has no layer: add it to the table", name)
			continue
		}
		seen++
		for _, imp := range p.Imports {
			if imp == "C" {
				t.Errorf("%s uses cgo", name)
			}
			if imp == module || strings.HasPrefix(imp, module+"/") {
				to, ok := layer[strings.TrimPrefix(imp, module+"/")]
				_, sideways := sameLayer[[2]string{name, strings.TrimPrefix(imp, module+"/")}]
				if ok && to >= from && !sideways {
					t.Errorf("%s (layer %d) imports %s (layer %d): imports point down only", name, from, imp, to)
				}
				continue
			}
			if from > 2 {
				continue
			}
			external := strings.Contains(strings.SplitN(imp, "/", 2)[0], ".")
			if external && !strings.HasPrefix(imp, "gonum.org/v1/gonum/") {
				t.Errorf("%s (layer %d) imports %s: layers 0 to 2 import gonum and the standard library only", name, from, imp)
			}
		}
	}
	require.Positive(t, seen)
}
