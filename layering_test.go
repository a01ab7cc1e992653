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
// or a higher one. Commands, and the research wing in cmd/internal, may import everything, and
// nothing outside of cmd can import them.
var layer = map[string]int{
	"internal/testkit":    -1,
	"internal/wholefile":  -1,
	"internal/prefix":     -2, // imports the standard library only
	"internal/enclose":    -1,
	"internal/kernel":     -1,
	"internal/num":        -2,
	"internal/pld":        0,
	"internal/noise":      -1,
	"dp":                  0,
	"internal/accounting": 0,
	"internal/linear":     1,
	"prox":                0,
	"loss":                0,
	"randmat":             0,
	"internal/fault":      -2, // imports the standard library only
	"splitting":           1,
	"erm":                 1,
	"table/npy":           1,
	"internal/release":    1,
	"qop":                 2,
	"lop":                 2,
	"sco":                 2,
	"lasso":               2,
	"table":               2,
	"dp/ledger":           3, // its file lock is a library
	"internal/packed":     3,
	"model":               4,
	"objpert":             2,
	"dp/dptest":           5, // test suites may use what they test
	"prox/proxtest":       5,
	"erm/ermtest":         5,
	"loss/losstest":       5,
}

// sameLayer lists the sideways edges that are allowed, with the reason.
var sameLayer = map[[2]string]string{
	{"sco", "lop"}:                          "objective perturbation for the population is that of lop with another weight Δ",
	{"internal/release", "erm"}:             "the loop that solves and certifies is where the two meet",
	{"internal/release", "splitting"}:       "the loop that solves and certifies is where the two meet",
	{"dp", "internal/pld"}:                  "profiles compose by their loss distributions",
	{"internal/accounting", "internal/pld"}: "steps compose by their loss distributions",
	{"internal/accounting", "dp"}:           "accounting of sampled sums is accounting: it makes dp.Profiles",
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
