package experiment

import (
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
)

// integers is a set of records as integers.
type integers struct {
	row   [][]int64
	label []int
}

// accuracy is the share of the records whose label is the sign of ⟨x, w⟩, with sgn(0) = −1. Scores of
// integer weights are exact: |x_j| < 2³¹ and |w_j| < 2¹⁵.
func (p integers) accuracy(w []float64) float64 {
	right := 0
	for i, x := range p.row {
		score := 0.0
		for j, v := range x {
			score += float64(v) * w[j]
		}
		if (score > 0) == (p.label[i] > 0) {
			right++
		}
	}
	return float64(right) / float64(len(p.row))
}

// load reads or generates the records.
func (c *halfspaceConfig) load() (*halfspaceData, error) {
	features, err := adult.Experiment(c.Features)
	if err != nil {
		return nil, sweep.Usagef("flag -features: %w", err)
	}
	var train, test []adult.Record
	if c.data == "" {
		src := rand.New(noise.Reproducible(0, "halfspace", "records"))
		train, test = people(c.N, src), people(max(1, c.N/2), src)
	} else {
		if train, c.Data, err = sweep.ReadFile("data", c.data, adult.Read); err != nil {
			return nil, err
		}
		train = adult.Balanced(train)
		if len(train) < 2 {
			return nil, sweep.Usagef("flag -data: %s has not both classes of income, so there is nothing to tell apart",
				c.data)
		}
		if c.test != "" {
			if test, c.Test, err = sweep.ReadFile("test", c.test, adult.Read); err != nil {
				return nil, err
			}
			test = adult.Balanced(test)
		}
	}
	if c.Split > 0 {
		// The choice of the records that are held out does not depend on their content.
		src := rand.New(noise.Reproducible(0, "halfspace", "split"))
		src.Shuffle(len(train), func(i, j int) { train[i], train[j] = train[j], train[i] })
		held := int(math.Round(c.Split * float64(len(train))))
		if held < 1 || held >= len(train) {
			return nil, sweep.Usagef("flag -split = %v of %d records leaves none on one side", c.Split, len(train))
		}
		train, test = train[held:], train[:held]
	}
	d := &halfspaceData{c: c}
	d.train.row, d.train.label = features.Integers(train)
	d.test.row, d.test.label = features.Integers(test)
	rows, labels := features.Floats(train)
	// Features are in [0, 1]; one of each category is 1, the others are 0.
	attributes := map[int]bool{}
	for _, f := range features {
		attributes[f.Attribute] = true
	}
	d.smooth, err = erm.NewData(rows, labels, loss.Bounds{Row: math.Sqrt(float64(len(attributes))), Label: 1})
	return d, err
}

// people draws records like those of Adult: levels by a decaying law, capital gain and loss mostly 0,
// working hours mostly 40, and a label that a score of a few attributes decides with some doubt. Both
// labels are equally frequent.
func people(n int, src *rand.Rand) []adult.Record {
	records := make([]adult.Record, 0, n)
	left := map[bool]int{false: n / 2, true: n - n/2}
	for len(records) < n {
		var r adult.Record
		score := -1.0
		for i, a := range adult.Attributes {
			switch {
			case a.Levels != nil:
				level := 0
				for level < len(a.Levels)-1 && src.Float64() < 0.55 {
					level++
				}
				r.Value[i] = int64(level)
				if a.Name == "marital-status" || a.Name == "relationship" {
					score += []float64{1.2, -0.4, -1.1}[min(level, 2)]
				}
			case a.Name == "capital-gain" || a.Name == "capital-loss":
				if src.Float64() < 0.07 {
					share := float64(1+src.IntN(20)) / 40 // of the maximum
					r.Value[i] = int64(share * *a.Max)
					score += 6 * share
				}
			case a.Name == "hours-per-week":
				r.Value[i] = 40
				if src.Float64() < 0.5 {
					r.Value[i] = min(int64(*a.Max), 5*src.Int64N(20))
				}
				score += float64(r.Value[i]-40) / 40
			default:
				r.Value[i] = src.Int64N(int64(*a.Max) + 1)
			}
		}
		r.Positive = src.Float64() < 1/(1+math.Exp(-2*score))
		if left[r.Positive] > 0 {
			left[r.Positive]--
			records = append(records, r)
		}
	}
	return records
}
