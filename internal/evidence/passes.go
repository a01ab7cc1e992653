package evidence

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/sweep"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
)

// start is when the program began.
var start = time.Now()

// Passes measures the seconds of one gradient of the logistic loss over n records of d
// uniform numbers in memory. The column cpu is the least processor time over the runs, added
// over the threads: it bears a machine that others use too. Run it with one worker,
// or cells disturb one another.
func Passes(runs, d int, threads []int, sizes ...float64) *sweep.Experiment {
	e := &sweep.Experiment{
		Name: "passes", Sweep: "n", Values: sizes, Params: map[string]any{"runs": runs, "d": d},
		Columns: []sweep.Column{column("least"), column("cpu")},
	}
	count := map[string]int{}
	for _, t := range threads {
		name := fmt.Sprintf("in memory, %d threads", t)
		if t == 1 {
			name = "in memory, 1 thread"
		}
		count[name] = t
		e.Methods = append(e.Methods, name)
	}
	e.Prepare = func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
		n := int(c.Value)
		rnd := rand.New(noise.Reproducible(uint64(n), "passes"))
		x, y := mat.NewDense(n, d, nil), make([]float64, n)
		for i := range x.RawMatrix().Data {
			x.RawMatrix().Data[i] = rnd.Float64() - 0.5
		}
		for i := range y {
			y[i] = float64(1 - 2*rnd.IntN(2))
		}
		data, err := erm.NewDataDense(x, y, loss.Bounds{Row: math.Sqrt(float64(d)) / 2, Label: 1})
		if err != nil {
			return sweep.Task{}, err
		}
		o := erm.NewUnperturbed(&erm.Problem{Data: data, Loss: loss.Logistic{}, Threads: count[c.Method]})
		theta, g := make([]float64, d), make([]float64, d)
		for j := range theta {
			theta[j] = rnd.Float64()
		}
		o.Grad(g, theta) // what is computed once is not timed
		least, cpu := math.Inf(1), math.Inf(1)
		return sweep.Task{
			Runs: runs,
			Run: func(context.Context, rand.Source) (float64, error) {
				wall, busy := time.Now(), CPU()
				o.Grad(g, theta)
				s := time.Since(wall).Seconds()
				least, cpu = min(least, s), min(cpu, (CPU()-busy).Seconds())
				return s, nil
			},
			Detail: func() any { return details{"least": least, "cpu": cpu} },
		}, nil
	}
	e.Summarize = func(results []sweep.Result) (any, []string) {
		slopes := map[string]float64{}
		var lines []string
		for _, m := range e.Methods {
			slopes[m] = Slope(results, m)
			lines = append(lines, fmt.Sprintf("%s: log-log slope of processor seconds in n: %.3f", m, slopes[m]))
		}
		return map[string]any{"slopes": slopes}, lines
	}
	return e
}

// Slope is the least-squares slope of the logarithm of the processor seconds against
// the logarithm of the swept value.
func Slope(results []sweep.Result, method string) float64 {
	var x, y []float64
	for _, r := range results {
		if s, ok := Detail(r, "cpu"); ok && r.Method == method {
			x, y = append(x, math.Log(r.Value)), append(y, math.Log(s))
		}
	}
	_, slope := stat.LinearRegression(x, y, nil, false)
	return slope
}
