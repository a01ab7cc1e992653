package objpert

import (
	"context"
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
		q, err := p.Perturb(table, norm)
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
