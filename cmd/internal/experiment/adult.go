package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
)

// Adult fits logistic regression to Adult with every field at its default: B = 20,
// δ = 1/n², complete records, rows within norm 1. The outcome is the excess risk, as a
// mean over the records, over the minimum; the column accuracy is about adult.test.
// PRIVOPT_DATA names the folder that holds adult/adult.data and adult/adult.test.
func Adult(runs int, epsilons ...float64) (*sweep.Experiment, error) {
	dir, err := folder("PRIVOPT_DATA", "adult/adult.data and adult/adult.test")
	if err != nil {
		return nil, err
	}
	train, err := oneHotFile(filepath.Join(dir, "adult", "adult.data"))
	if err != nil {
		return nil, err
	}
	test, err := oneHotFile(filepath.Join(dir, "adult", "adult.test"))
	if err != nil {
		return nil, err
	}
	data, err := erm.NewData(train.Rows, train.Labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		return nil, err
	}
	n, d := data.Dims()
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
	risk := func(theta []float64) float64 { return erm.NewUnperturbed(p).Func(theta) / float64(n) }
	// The ridge makes the minimizer unique; it raises the minimum by less than 1e-7.
	best, err := splitting.Minimize(context.Background(), splitting.Problem{F: erm.NewUnperturbed(p), G: prox.SquaredL2{Weight: 1e-6}},
		make([]float64, d), nil)
	if err != nil {
		return nil, err
	}
	least := risk(best.X)
	methods := map[string]dp.Relation{}
	for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
		methods[rel.String()] = rel
	}
	return &sweep.Experiment{
		Name: "adult", Sweep: "eps", Values: epsilons, Methods: []string{dp.Replace.String(), dp.AddRemove.String()},
		Params:     map[string]any{"runs": runs, "n": n, "d": d},
		NotPrivate: "risks and accuracies are computed from the records",
		Columns:    []sweep.Column{column("accuracy"), column("accuracy_stderr")},
		Prepare: func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
			m := &lop.Mechanism{Relation: methods[c.Method], Radius: 20}
			plan, err := m.Plan(p, dp.Budget{Epsilon: c.Value, Delta: 1 / (float64(n) * float64(n))})
			if err != nil {
				return sweep.Task{}, err
			}
			sum, square := 0.0, 0.0
			return sweep.Task{
				Runs: runs,
				Run: func(ctx context.Context, src rand.Source) (float64, error) {
					release, err := plan.Fit(ctx, p, src)
					if err != nil {
						return 0, err
					}
					a := test.Accuracy(release.Theta)
					sum, square = sum+a, square+a*a
					return risk(release.Theta) - least, nil
				},
				Detail: func() any {
					k := float64(runs)
					return details{"accuracy": sum / k, "accuracy_stderr": math.Sqrt(max(0, square/k-sum*sum/(k*k)) / max(1, k-1))}
				},
			}, nil
		},
	}, nil
}

// people reads the complete records of a file of Adult as one-hot rows.
func oneHotFile(path string) (adult.Sample, error) {
	file, err := os.Open(path)
	if err != nil {
		return adult.Sample{}, fmt.Errorf("evidence: %w", err)
	}
	defer file.Close()
	return adult.OneHot(file)
}
