package objpert

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
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
		table, norm = sphere(p.Values, in.D2, in.Eta)
	}
	p, err = p.perturbReal(table, norm)
	require.NoError(t, err)
	return p
}

func TestGolden(t *testing.T) {
	oracles := map[string]Oracle{"Enumerate": Enumerate{}, "CellSearch": CellSearch{}}
	g := readGolden(t)
	for _, in := range append(g.Small, g.Mid...) {
		p := in.problem(t)
		for name, o := range oracles {
			t.Run(in.Name+"/"+name, func(t *testing.T) {
				if name == "Enumerate" && p.Points() > 1e6 {
					return
				}
				if in.Points > 0 {
					require.Equal(t, in.Points, p.Points())
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
