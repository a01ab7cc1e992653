package objpert

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/adult"
)

var adultRecords = sync.OnceValues(func() ([]adult.Record, error) {
	f, err := os.Open(filepath.Join(os.Getenv("PRIVOPT_DATA"), "adult", "adult.data"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return adult.Read(f)
})

// adultProblem is the balanced training set with the given columns over the
// lattice of squared radius q: n = 15682.
func adultProblem(t testing.TB, size, q int) *Problem {
	if os.Getenv("PRIVOPT_DATA") == "" {
		t.Skip("PRIVOPT_DATA is not set: it names the folder that holds adult/adult.data")
	}
	records, err := adultRecords()
	require.NoError(t, err)
	f, err := adult.Experiment(size)
	require.NoError(t, err)
	rows, labels := f.Integers(adult.Balanced(records, nil))
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
