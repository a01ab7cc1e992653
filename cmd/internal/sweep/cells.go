// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
)

// Once is the task of a method without noise.
func Once(f func(context.Context) (float64, error)) Task {
	return Task{Runs: 1, Run: func(ctx context.Context, _ rand.Source) (float64, error) { return f(ctx) }}
}

// Sizes are the quantities that experiments sweep.
type Sizes struct {
	N       int     `json:"n,omitempty"`
	D       int     `json:"d,omitempty"`
	Epsilon float64 `json:"eps"`
	Kappa   float64 `json:"kappa,omitempty"`
	// LabelNoise is the standard deviation of noise in the labels.
	LabelNoise float64 `json:"label_noise,omitempty"`
}

// Set gives the swept quantity a value.
func (s *Sizes) Set(name string, value float64) {
	switch name {
	case "n":
		s.N = int(value)
	case "d":
		s.D = int(value)
	case "eps":
		s.Epsilon = value
	case "kappa":
		s.Kappa = value
	case "label-noise":
		s.LabelNoise = value
	}
}

// ParseSwept reads the flag -values for a swept quantity.
func ParseSwept(name, list string) ([]float64, error) {
	r := map[string]Range{"n": Between(1, 1e7), "d": Between(1, 5000), "eps": Positive(1e5),
		"kappa": Positive(1e9), "label-noise": Between(0, 1e6)}[name]
	return ParseValues("values", list, r, name == "n" || name == "d")
}

// Fitter is a calibrated mechanism: it fits the records for which it was planned.
type Fitter func(ctx context.Context, src rand.Source) (*dp.Release, error)

// Fitted is what a cell keeps of its fits.
type Fitted struct {
	Certificate *dp.Certificate `json:"certificate,omitempty"`
}

// Fit returns a released parameter. Without a seed the noise is secure, and no caller vouches for
// it.
func (d *Fitted) Fit(ctx context.Context, o *Options, src rand.Source, fit Fitter) ([]float64, error) {
	if o.Seed == nil {
		src = nil
	}
	release, err := fit(ctx, src)
	if err != nil {
		return nil, err
	}
	d.Certificate = &release.Certificate // of every fit, but for the assumption on the source the same
	return release.Theta, nil
}

// Releases lists a certificate for each of n releases.
func Releases(c *dp.Certificate, n int) []dp.Certificate {
	return slices.Repeat([]dp.Certificate{*c}, n)
}

// Cost returns what all releases cost together, nil if their sum is no budget, and a line that says
// it.
func Cost(certificates []dp.Certificate) (*dp.Budget, string) {
	n := len(certificates)
	all, err := dp.Basic(certificates...)
	if err != nil {
		return nil, fmt.Sprintf("publishing all %d releases would promise nothing: their ε and δ add up beyond every "+
			"meaningful budget", n)
	}
	return &all.Budget, fmt.Sprintf("publishing all %d releases, or the best of them, would cost (ε = %.4g, δ = %.4g) "+
		"together", n, all.Epsilon, all.Delta)
}

// Promises words a certificate and its assumptions.
func Promises(method, at string, c *dp.Certificate) []string {
	lines := []string{fmt.Sprintf("%s%s: %v, %v neighbors, by %s", method, at, c.Budget, c.Relation, c.Theorem)}
	for _, a := range c.Assumptions {
		lines = append(lines, fmt.Sprintf("%s: assumes that %s", method, a))
	}
	return lines
}

// Digits writes four digits of x.
func Digits(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// LogSlope is the least-squares slope of log y against log x, with the share R² of the variance
// that the line explains.
func LogSlope(x, y []float64) (slope, r2 float64) {
	logs := func(x []float64) []float64 {
		l := make([]float64, len(x))
		for i, v := range x {
			l[i] = math.Log(v)
		}
		return l
	}
	lx, ly := logs(x), logs(y)
	from, slope := stat.LinearRegression(lx, ly, nil, false)
	return slope, stat.RSquared(lx, ly, nil, from, slope)
}

// Memo computes once for every key what cells share.
type Memo[K comparable, V any] struct{ made sync.Map }

func (m *Memo[K, V]) Get(k K, compute func() (V, error)) (V, error) {
	f, _ := m.made.LoadOrStore(k, sync.OnceValues(compute))
	return f.(func() (V, error))()
}
