package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/internal/noise"
)

// populationSummary is the object "results" of summary.json.
type populationSummary struct {
	Slopes     map[string]slope `json:"slopes,omitempty"`
	Violations []string         `json:"violations"` // means above their proved bound
	Notes      []string         `json:"notes"`
}

// slope of log excess with a 95 % interval.
type slope struct {
	Slope float64 `json:"slope"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// summarize fits slopes and compares means with bounds.
func (c *populationConfig) summarize(results []sweep.Result) (any, []string) {
	sum := &populationSummary{Slopes: map[string]slope{}, Violations: []string{}, Notes: []string{}}
	var lines []string
	bounds := map[string]map[float64]float64{}
	for _, r := range results {
		if m, ok := strings.CutSuffix(r.Method, boundSuffix); ok {
			if bounds[m] == nil {
				bounds[m] = map[float64]float64{}
			}
			bounds[m][r.Value] = r.Mean
		}
	}
	for _, m := range c.methods {
		var values []float64
		var outcomes [][]float64
		var evaluations []string
		for _, r := range results {
			if r.Method != m {
				continue
			}
			d, _ := sweep.DetailOf[populationDetail](r)
			if len(d.Outcomes) > 0 && slices.Min(d.Outcomes) > 0 {
				values, outcomes = append(values, r.Value), append(outcomes, d.Outcomes)
			}
			if k, ok := d.evaluations(); ok {
				evaluations = append(evaluations, fmt.Sprintf("%.3g", k))
			}
			// A mean of few runs may exceed the expectation that is bounded: by 5
			// standard errors in one of a million cells.
			if b, ok := bounds[m][r.Value]; ok && r.Mean-5*r.StdErr > b {
				sum.Violations = append(sum.Violations, fmt.Sprintf("%s at %s = %v: mean excess %.4g (±%.2g) is above the "+
					"proved bound %.4g", m, c.sweep, r.Value, r.Mean, r.StdErr, b))
			}
		}
		line := m
		if len(values) > 1 {
			s := fitSlope(values, outcomes)
			sum.Slopes[m] = s
			line += fmt.Sprintf(": slope %.3f (%.3f to %.3f) in %s", s.Slope, s.Low, s.High, c.sweep)
		}
		if len(evaluations) > 0 {
			line += "; gradient evaluations " + strings.Join(evaluations, ", ")
		}
		lines = append(lines, line)
	}
	for _, v := range sum.Violations {
		lines = append(lines, "VIOLATION: "+v)
	}
	if c.bounds && len(sum.Violations) == 0 {
		lines = append(lines, "no mean is above its proved bound")
	}
	if c.Family == "linear" {
		sum.Notes = append(sum.Notes, "the signal of the linear family shrinks with the rate: its slope is that of the "+
			"worst case, by construction for any method whose accuracy keeps up with it")
	}
	return sum, append(lines, sum.Notes...)
}

// fitSlope returns the least-squares slope of the geometric means of the runs, and the 2.5 % and
// 97.5 % quantiles of the same over resampled runs.
func fitSlope(values []float64, outcomes [][]float64) slope {
	const resamples = 2000
	x, y := make([]float64, len(values)), make([]float64, len(values))
	logs := make([][]float64, len(values))
	for i, v := range values {
		x[i] = math.Log(v)
		for _, o := range outcomes[i] {
			logs[i] = append(logs[i], math.Log(o))
		}
		y[i] = stat.Mean(logs[i], nil)
	}
	_, s := stat.LinearRegression(x, y, nil, false)
	src := rand.New(noise.Reproducible(0, "population", "bootstrap"))
	all := make([]float64, resamples)
	for k := range all {
		for i := range logs {
			y[i] = 0
			for range logs[i] {
				y[i] += logs[i][src.IntN(len(logs[i]))] / float64(len(logs[i]))
			}
		}
		_, all[k] = stat.LinearRegression(x, y, nil, false)
	}
	slices.Sort(all)
	return slope{s, stat.Quantile(0.025, stat.Empirical, all, nil), stat.Quantile(0.975, stat.Empirical, all, nil)}
}
