package objpert

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/table"
)

// adultFields is the published schema of the file with all levels.
var adultFields = sync.OnceValues(func() (*table.Schema, error) {
	f, err := os.Open("../cmd/internal/adult/fields.schema.json")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return table.ReadSchema(f)
})

// adultColumns are the attributes of the problems by the number of features.
var adultColumns = map[int]string{
	23: "marital-status relationship race sex capital-gain capital-loss hours-per-week",
	28: "education marital-status sex age capital-gain hours-per-week",
	43: "education marital-status sex occupation age capital-gain hours-per-week",
	60: "education marital-status relationship race sex occupation workclass",
}

// adultProblem is the balanced training set with the given number of features over the lattice of squared
// radius q: n = 15682. A level is an indicator and a number is a share of its maximum, both times the least
// common multiple of the maxima.
func adultProblem(t testing.TB, size, q int) *Problem {
	folder := os.Getenv("PRIVOPT_DATA")
	if folder == "" {
		t.Skip("PRIVOPT_DATA is not set: it names the folder that holds adult/adult.data")
	}
	s, err := adultFields()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(folder, "adult", "adult.data"))
	require.NoError(t, err)
	one := big.NewInt(1)
	column := func(name string) int {
		return slices.IndexFunc(s.Columns, func(c table.Column) bool { return c.Name == name })
	}
	for _, name := range strings.Fields(adultColumns[size]) {
		if c := s.Columns[column(name)]; c.Levels == nil {
			most := big.NewInt(int64(*c.Max))
			common := new(big.Int).GCD(nil, nil, one, most)
			one.Mul(one, most).Div(one, common)
		}
	}
	negative := strings.Count(string(text), ">50K") // of the others, the first as many
	var rows [][]int64
	var labels []int
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if len(fields) < 15 {
			continue
		}
		label := 1
		if fields[14] == "<=50K" {
			label = -1
			if negative--; negative < 0 {
				continue
			}
		}
		var row []int64
		for _, name := range strings.Fields(adultColumns[size]) {
			i := column(name)
			if c := s.Columns[i]; c.Levels == nil {
				v, err := strconv.ParseInt(fields[i], 10, 64)
				require.NoError(t, err)
				row = append(row, v*(one.Int64()/int64(*c.Max)))
				continue
			}
			for _, level := range s.Columns[i].Levels {
				row = append(row, map[bool]int64{true: one.Int64()}[fields[i] == level])
			}
		}
		rows, labels = append(rows, row), append(labels, label)
	}
	p, err := NewProblem(rows, labels, nil, Lattice(q))
	require.NoError(t, err)
	return p
}

func TestGoldenAdult(t *testing.T) {
	p := adultProblem(t, 23, 23)
	g := readGolden(t).Adult
	require.Equal(t, g.N, p.Records())
	require.LessOrEqual(t, len(p.X), g.Distinct)
	for _, run := range g.Runs {
		table, norm := sphere(p.Values, run.Q, run.Eta)
		q, err := p.perturbReal(table, norm)
		require.NoError(t, err)
		s, err := CellSearch{}.Solve(context.Background(), q)
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
	table, norm := sphere(p.Values, p.NormSq, sphereNoise(p.Dim, p.NormSq, eps, law, seed))
	q, err := p.perturbReal(table, norm)
	require.NoError(t, err)
	return q
}

// TestAdult proves optima of the experiment; BenchmarkExperiment does all.
func TestAdult(t *testing.T) {
	p := adultProblem(t, 23, 23)
	for _, law := range []string{"radial", "gaussian"} {
		for _, eps := range []float64{0.1, 0.3, 1} {
			s, err := CellSearch{}.Solve(context.Background(), perturbSphere(t, p, eps, law, 0))
			require.NoError(t, err)
			require.True(t, s.Proven)
		}
	}
}

// TestAdultTies: without noise ties are everywhere, and the first point in
// lexicographic order is still found.
func TestAdultTies(t *testing.T) {
	p := adultProblem(t, 23, 4)
	s, err := CellSearch{}.Solve(context.Background(), p)
	require.NoError(t, err)
	require.True(t, s.Proven)
	again, err := CellSearch{Workers: 1}.Solve(context.Background(), p)
	require.NoError(t, err)
	require.Equal(t, s.W, again.W)
	require.Equal(t, float64(s.Loss), s.Objective)
}
