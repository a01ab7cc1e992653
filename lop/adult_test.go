package lop_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/adult"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// before is what this test prints at commit d0757b1, the last one with release
// noise in float64 and theorems lop.*/1: mean excess risk and its standard error.
var before = map[string][2]float64{
	"replace 0.1":    {0.11175, 0.00210},
	"replace 0.3":    {0.07047, 0.00119},
	"replace 1":      {0.04263, 0.00061},
	"add-remove 0.1": {0.08416, 0.00142},
	"add-remove 0.3": {0.05325, 0.00082},
	"add-remove 1":   {0.03253, 0.00038},
}

// TestAdult fits logistic regression to Adult with every field at its default:
// B = 20, δ = 1/n², 20 seeds, complete records, rows within norm 1. Excess risk is
// that of a mean over the records against the minimum; accuracy is on adult.test. The excess
// risk is no larger than before, beyond two standard errors of the difference. The
// table in README is its output:
//
//	PRIVOPT_DATA=DIR go test ./lop -run TestAdult -v
func TestAdult(t *testing.T) {
	dir := os.Getenv("PRIVOPT_DATA")
	if dir == "" || testing.Short() {
		t.Skip("set PRIVOPT_DATA to the folder that holds adult/adult.data and adult/adult.test; 120 fits to 30162 records")
	}
	rows, labels := adultRows(t, filepath.Join(dir, "adult", "adult.data"))
	testRows, testLabels := adultRows(t, filepath.Join(dir, "adult", "adult.test"))
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	n, d := data.Dims()
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
	risk := func(theta []float64) float64 { // a mean over the records
		var sum float64
		for i := range n {
			sum += p.Loss.Func(theta, data.Row(i), data.Label(i))
		}
		return sum / float64(n)
	}
	// The ridge makes the minimizer unique; it raises the minimum by less than 1e-7.
	best, err := splitting.Minimize(t.Context(), splitting.Problem{F: erm.NewUnperturbed(p), G: prox.SquaredL2{Weight: 1e-6}},
		make([]float64, d), nil)
	require.NoError(t, err)
	least := risk(best.X)
	const runs = 20
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		for _, eps := range []float64{0.1, 0.3, 1} {
			excess, accuracy := make([]float64, runs), make([]float64, runs)
			for i := range runs {
				m := &lop.Mechanism{Relation: rel, Radius: 20}
				b := dp.Budget{Epsilon: eps, Delta: 1 / (float64(n) * float64(n))}
				release, err := m.Fit(context.Background(), p, b, noise.Reproducible(uint64(i)))
				require.NoError(t, err)
				excess[i] = risk(release.Theta) - least
				right := 0
				for j, row := range testRows {
					if (floats.Dot(row, release.Theta) > 0) == (testLabels[j] > 0) {
						right++
					}
				}
				accuracy[i] = float64(right) / float64(len(testRows))
			}
			mean, dev := stat.MeanStdDev(excess, nil)
			se := dev / math.Sqrt(runs)
			meanAccuracy, devAccuracy := stat.MeanStdDev(accuracy, nil)
			key := fmt.Sprintf("%v %v", rel, eps)
			t.Logf("%-14s excess risk %.5f (%.5f), accuracy %.4f (%.4f)", key, mean, se, meanAccuracy, devAccuracy/math.Sqrt(runs))
			require.LessOrEqual(t, mean, before[key][0]+2*math.Hypot(se, before[key][1]), key)
		}
	}
}

// adultRows reads the complete records of a file of Adult as one-hot rows.
func adultRows(t *testing.T, path string) ([][]float64, []float64) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	records, err := adult.Read(file)
	require.NoError(t, err)
	features, err := adult.Experiment(104)
	require.NoError(t, err)
	return features.Floats(adult.Complete(records))
}
