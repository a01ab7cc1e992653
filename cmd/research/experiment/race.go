// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// RaceSets are the regression sets of the race.
var RaceSets = []string{
	"syn-1e3-5", "syn-1e4-5", "syn-1e4-20", "syn-1e5-20", "syn-1e4-100", "syn-1e5-100", "syn-1e4-20-skew",
	"syn-1e5-20-skew", "adult-hours", "adult-age", "adult-hours-small", "diabetes", "digits",
}

// Race fits least squares with all defaults of model.Fit, relation add-remove, δ = 1/n²,
// to the sets of the race, which are the methods of the experiment. The outcome is R² on
// the test split; the column ols is that of least squares without privacy. dir holds the
// sets as bench/race.py writes them. Run k of every cell draws the noise of seed first + k.
func Race(dir string, first uint64, runs int, sets []string, epsilons ...float64) (*sweep.Experiment, error) {
	read := map[string]func() (raceSet, error){}
	for _, name := range sets {
		if _, err := os.Stat(filepath.Join(dir, name+".shape")); err != nil {
			return nil, sweep.Usagef("%s holds no set %s of the race: %w", dir, name, err)
		}
		read[name] = sync.OnceValues(func() (raceSet, error) { return readRace(dir, name) })
	}
	return &sweep.Experiment{
		Name: "race", Sweep: "eps", Values: epsilons, Methods: sets,
		Params:  map[string]any{"runs": runs, "first": first},
		Columns: []sweep.Column{column("ols")},
		Prepare: func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
			s, err := read[c.Method]()
			if err != nil {
				return sweep.Task{}, err
			}
			n, _ := s.train.Dims()
			seed := first
			return sweep.Task{
				Runs: runs,
				Run: func(ctx context.Context, _ rand.Source) (float64, error) {
					b := dp.Budget{Epsilon: c.Value, Delta: model.DefaultDelta(n)}
					m, err := model.Fit(ctx, &table.Data{Records: s.train}, b, &model.Options{
						Loss: model.Loss{Name: model.Squares}, Relation: dp.AddRemove, Records: n,
						Source: noise.Reproducible(seed, "race", c.Method),
					})
					seed++
					if err != nil {
						return 0, err
					}
					return s.r2(estimates(m)), nil
				},
				Detail: func() any { return details{"ols": s.ols} },
			}, nil
		},
	}, nil
}

// estimates are the coefficients of a model of rows without names.
func estimates(m *model.Model) []float64 {
	var theta []float64
	for _, row := range m.Summary().Rows {
		theta = append(theta, row.Estimate)
	}
	return theta
}

// raceSet is a regression set with its test split.
type raceSet struct {
	train      *erm.Data
	testX      *mat.Dense
	testY      []float64
	ols, total float64 // R² of least squares, mean square of the test labels around the training mean
}

func readRace(dir, name string) (s raceSet, err error) {
	x, y, err := readSplit(filepath.Join(dir, name))
	if err == nil {
		s.testX, s.testY, err = readSplit(filepath.Join(dir, name+"-test"))
	}
	if err != nil {
		return s, err
	}
	mean := floats.Sum(y) / float64(len(y))
	for _, v := range s.testY {
		s.total += (v - mean) * (v - mean) / float64(len(s.testY))
	}
	theta, err := leastSquares(x, y)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	s.ols = s.r2(theta)
	s.train, err = erm.NewDataDense(x, y, loss.Bounds{Row: 1, Label: 1})
	return s, err
}

// readSplit reads BASE.shape, "n d", and BASE.X and BASE.y, little-endian float64.
func readSplit(base string) (*mat.Dense, []float64, error) {
	text, err := os.ReadFile(base + ".shape")
	if err != nil {
		return nil, nil, err
	}
	var n, d int
	if _, err := fmt.Sscan(string(text), &n, &d); err != nil {
		return nil, nil, fmt.Errorf("%s.shape: %w", base, err)
	}
	x, y := make([]float64, n*d), make([]float64, n)
	for i, dst := range [][]float64{x, y} {
		ext := []string{".X", ".y"}[i]
		raw, err := os.ReadFile(base + ext)
		if err == nil && len(raw) != 8*len(dst) {
			err = fmt.Errorf("%s holds %d bytes, want %d", base+ext, len(raw), 8*len(dst))
		}
		if err == nil {
			_, err = binary.Decode(raw, binary.LittleEndian, dst)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return mat.NewDense(n, d, x), y, nil
}

// leastSquares returns the solution of least norm, singular values below 1e-6 of the largest cut
// off.
func leastSquares(x *mat.Dense, y []float64) ([]float64, error) {
	var gram mat.SymDense
	_, d := x.Dims()
	gram.SymOuterK(1, x.T())
	var eig mat.EigenSym
	if !eig.Factorize(&gram, true) {
		return nil, errors.New("no eigenvalues of the Gram matrix")
	}
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
	return theta.RawVector().Data, nil
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
