package model

import (
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
	"github.com/privopt/privopt/table"
)

// raceSets are the regression sets of the race, in the folder data of PRIVOPT_PEERS.
var raceSets = []string{
	"syn-1e3-5", "syn-1e4-5", "syn-1e4-20", "syn-1e5-20", "syn-1e4-100", "syn-1e5-100", "syn-1e4-20-skew", "syn-1e5-20-skew",
	"adult-hours", "adult-age", "adult-hours-small", "diabetes", "digits",
}

// raceSet is a regression set with its test split.
type raceSet struct {
	train      *erm.Data
	testX      *mat.Dense
	testY      []float64
	mean       float64 // of the training labels
	ols, total float64 // R² of least squares, mean square of the centered test labels
}

func readRace(t *testing.T, folder, name string) raceSet {
	part := func(split string) (*mat.Dense, []float64) {
		base := filepath.Join(folder, name+split)
		text, err := os.ReadFile(base + ".shape")
		require.NoError(t, err)
		var n, d int
		_, err = fmt.Sscan(string(text), &n, &d)
		require.NoError(t, err)
		numbers := func(file string, want int) []float64 {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Len(t, raw, 8*want)
			out := make([]float64, want)
			for i := range out {
				out[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
			}
			return out
		}
		return mat.NewDense(n, d, numbers(base+".X", n*d)), numbers(base+".y", n)
	}
	x, y := part("")
	var s raceSet
	s.testX, s.testY = part("-test")
	s.mean = floats.Sum(y) / float64(len(y))
	var err error
	s.train, err = erm.NewDataDense(x, y, loss.Bounds{Row: 1, Label: 1})
	require.NoError(t, err)
	for _, v := range s.testY {
		s.total += (v - s.mean) * (v - s.mean) / float64(len(s.testY))
	}
	s.ols = s.r2(leastSquares(t, x, y))
	return s
}

// leastSquares returns the solution of least norm, singular values below 1e-6 of the largest cut off.
func leastSquares(t *testing.T, x *mat.Dense, y []float64) []float64 {
	var gram mat.SymDense
	_, d := x.Dims()
	gram.SymOuterK(1, x.T())
	var eig mat.EigenSym
	require.True(t, eig.Factorize(&gram, true))
	var v mat.Dense
	eig.VectorsTo(&v)
	values := eig.Values(nil)
	var xty, theta mat.VecDense
	xty.MulVec(x.T(), mat.NewVecDense(len(y), y))
	coord := mat.NewVecDense(d, nil)
	coord.MulVec(v.T(), &xty)
	for j, l := range values {
		if l <= 1e-12*values[d-1] {
			coord.SetVec(j, 0)
			continue
		}
		coord.SetVec(j, coord.AtVec(j)/l)
	}
	theta.MulVec(&v, coord)
	return theta.RawVector().Data
}

func (s raceSet) r2(theta []float64) float64 {
	var u mat.VecDense
	u.MulVec(s.testX, mat.NewVecDense(len(theta), theta))
	se := 0.0
	for i, y := range s.testY {
		se += (y - u.AtVec(i)) * (y - u.AtVec(i))
	}
	return 1 - se/float64(len(s.testY))/s.total
}

// Automatic least squares loses no more of R² than its reference, on all sets of the race.
// It needs PRIVOPT_PEERS, a folder with data of the race as mkdata.py writes them, the test splits beside
// the training sets with "-test" in their names; PRIVOPT_RACE names a table to write.
func TestRace(t *testing.T) {
	folder := os.Getenv("PRIVOPT_PEERS")
	if folder == "" {
		t.Skip("PRIVOPT_PEERS is not set: it names the folder of the accuracy race")
	}
	goals := []struct{ eps, most float64 }{{0.1, 0.110}, {0.3, 0.053}, {1, 0.025}, {3, 0.006}}
	seeds := 10
	if v, err := strconv.Atoi(os.Getenv("PRIVOPT_SEEDS")); err == nil {
		seeds = v
	}
	lost := make([]float64, len(goals))
	var out *csv.Writer
	if path := os.Getenv("PRIVOPT_RACE"); path != "" {
		f, err := os.Create(path)
		require.NoError(t, err)
		defer f.Close()
		out = csv.NewWriter(f)
		defer out.Flush()
	}
	for _, name := range raceSets {
		s := readRace(t, filepath.Join(folder, "data"), name)
		n, _ := s.train.Dims()
		for k, g := range goals {
			mean, square, steps := 0.0, 0.0, ""
			for seed := range seeds {
				m, err := Fit(t.Context(), &table.Data{Records: s.train}, dp.Budget{Epsilon: g.eps, Delta: DefaultDelta(n)}, &Options{
					Loss: Loss{Name: Squares}, Relation: dp.AddRemove, Records: n, Source: noise.Reproducible(uint64(seed), "race", name),
				})
				require.NoError(t, err)
				v := s.r2(m.theta)
				mean += v / float64(seeds)
				square += v * v / float64(seeds)
				steps = fmt.Sprintf("%t clip %.3g ridge %.3g c %.3g", m.params.Sequence.TwoStep, m.choice.Clip, m.choice.Ridge, m.params.Sequence.C)
			}
			lost[k] += min(1, s.ols-mean) / float64(len(raceSets))
			deviation := math.Sqrt(max(0, square-mean*mean) / float64(seeds-1))
			t.Logf("%-18s ε = %-4g R² %.4f ± %.4f of %.4f  %s", name, g.eps, mean, deviation, s.ols, steps)
			if out != nil {
				require.NoError(t, out.Write([]string{name, "ar", fmt.Sprint(g.eps), "model.Fit", strconv.FormatFloat(mean, 'f', 4, 64),
					strconv.FormatFloat(deviation, 'f', 4, 64), fmt.Sprint(seeds)}))
			}
		}
	}
	for k, g := range goals {
		t.Logf("ε = %-4g mean R² lost %.4f, goal %.3f", g.eps, lost[k], g.most)
		if lost[k] > g.most {
			t.Errorf("ε = %v: mean R² lost %v, want at most %v", g.eps, lost[k], g.most)
		}
	}
}
