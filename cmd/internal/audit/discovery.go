// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// discovery is a search for a schema in two neighboring tables of three columns. On each side one
// record has a number on the boundary of two cells, and a spelling of its own.
type discovery struct {
	plan   *model.DiscoveryPlan
	tables [2]*table.Undeclared
	shift  float64 // T
	q      float64 // of all thresholds
	rho    []float64
}

// Sizes of the tables and the cells of −10¹⁵ and −2, by their definition.
const (
	discoveryRows = 400
	cellOfBig     = 1
	cellOfTwo     = 216 - 9*9
	discoveryCell = 435
)

func discoveryMechanisms() []mechanism {
	const name = "discover/A2/spellings and cells"
	return []mechanism{{
		name:  "discover",
		cases: []Case{{Name: "A2/spellings and cells", Pair: "A2", Layer: WhiteBox, run: discoveries}},
		controls: []Control{
			{"threshold", "the threshold of spellings is lower by 5", name, 600,
				edit(fault.Threshold, func(t *int) { *t -= 5 })},
			{"columns", "a replaced record counts once in each column: m in place of 2m", name, 600,
				edit(fault.ColumnSensitivity, func(s *float64) { *s = 1 })},
			{"cell", "−10¹⁵ and −2, on a boundary, count in both of its cells", name, 600,
				edit(fault.Cells, func(c *[]int64) {
					if len(*c) == discoveryCell {
						*c = slices.Clone(*c)
						(*c)[0] += (*c)[cellOfBig]
						(*c)[cellOfTwo+1] += (*c)[cellOfTwo]
					}
				})},
		},
	}}
}

// prepare plans, and computes the scale of the noise and the weights of the sums again.
func (c *discovery) prepare() error {
	b := dp.Budget{Epsilon: 4, Delta: 0.1}
	for side, record := range []string{"-2,mine,yes", "-1e15,yours,yes"} {
		var text strings.Builder
		text.WriteString("x,c,y\n" + record + "\n")
		for i := 1; i < discoveryRows; i++ {
			fmt.Fprintf(&text, "%d,all,%s\n", 10+i%90, []string{"yes", "no"}[i%2])
		}
		var err error
		c.tables[side], err = table.Discovery{Label: table.Label{Column: "y"}}.Read(strings.NewReader(text.String()))
		if err != nil {
			return err
		}
	}
	var err error
	if c.plan, err = model.NewDiscoveryPlan(3, discoveryRows, b, nil); err != nil {
		return err
	}
	c.q = b.Delta / 10
	c.shift, _ = num.Bisect(func(s float64) bool {
		return c.q+dp.GaussianDelta(b.Epsilon+math.Log1p(-c.q), s) <= b.Delta
	}, 1e-3, 100)
	r := 1.0
	for k := range discoveryCell {
		if k > 0 {
			r *= float64(2*k-1) / float64(2*k)
		}
		c.rho = append(c.rho, math.Round(0x1p20*r))
	}
	return nil
}

// sensitivity returns the largest distance of two columns of weights.
func (c *discovery) sensitivity() float64 {
	most := 0.0
	for lag := 1; lag < len(c.rho); lag++ {
		square := 0.0
		for k, v := range c.rho {
			if k >= lag {
				v -= c.rho[k-lag]
			}
			square += v * v
		}
		most = max(most, square)
	}
	return math.Sqrt(most)
}

// discoveries recovers the noise of all counts and of some sums, and counts how often an own
// spelling is shown.
func discoveries(ctx context.Context, e *env) (Finding, error) {
	own := discovery{}
	if err := own.prepare(); err != nil {
		return Finding{}, err
	}
	part := math.Sqrt(0.98/3) * own.shift
	kind, key := math.Sqrt(2*3/0.02)/own.shift, math.Sqrt2/part
	sums := own.sensitivity() / (part * math.Sqrt(0.55))
	exact := [2][]float64{own.sums(cellOfTwo), own.sums(cellOfBig)}
	watched := []int{0, 1, 2, 3, 4, cellOfTwo - 1, cellOfTwo, cellOfTwo + 1, 218, 300, 434}
	side, seen, runs := 0, 0, 0
	dither := rand.New(e.source("dither"))
	score := func(y, mean, sigma float64) float64 {
		lo, hi := (y-mean-0.5)/sigma, (y-mean+0.5)/sigma
		u := dither.Float64()
		return normalScore((1-u)*num.NormalCDF(lo)+u*num.NormalCDF(hi), (1-u)*num.NormalCDF(-lo)+u*num.NormalCDF(-hi))
	}
	once := func(ctx context.Context, src rand.Source) (z []float64, err error) {
		s, err := own.plan.Release(ctx, own.tables[side], src)
		if err != nil {
			return nil, err
		}
		for j, col := range s.Discovery.Columns {
			for k, n := range col.Kinds {
				mean := 0.0
				if j == 0 && k == 1 || j > 0 && k == 3 {
					mean = discoveryRows
				}
				z = append(z, score(float64(n), mean, kind))
			}
			for _, common := range [][]string{{}, {"all"}, {"yes", "no"}}[j] {
				if k := slices.Index(col.Spellings, common); k >= 0 { // in a fixed order, unlike the released one
					mean := map[string]float64{"all": discoveryRows - 1, "yes": discoveryRows / 2, "no": discoveryRows / 2}[common]
					z = append(z, score(float64(col.Counts[k]), mean, key))
				}
			}
			if slices.Contains(col.Spellings, "mine") || slices.Contains(col.Spellings, "yours") {
				seen++
			}
		}
		line := s.Discovery.Columns[0].Sums
		if len(line) == 0 || len(z) != 15 {
			return nil, fmt.Errorf("audit: %s: a column was not found", e.name)
		}
		for k, word := range strings.Fields(line[0]) {
			if slices.Contains(watched, k) {
				v, err := strconv.ParseFloat(word, 64)
				if err != nil {
					return nil, err
				}
				z = append(z, (v-exact[side][k])/sums)
			}
		}
		side, runs = 1-side, runs+1
		return z, nil
	}
	f, err := recovered(ctx, e, own.plan.Certificate(), max(e.few(26), 600), once)
	if err == nil { // the own spelling of a table is shown with probability q/2 at most
		p := 1.0
		if seen > 0 {
			p = mathext.RegIncBeta(float64(seen), float64(runs-seen+1), own.q/2) // P(Bin(runs, q/2) ≥ seen)
		}
		f.Tests = append(f.Tests, Test{"own spellings", p})
	}
	return f, err
}

// sums returns the weighted sums of the table whose first record is in a cell.
func (c *discovery) sums(cell int) []float64 {
	counts := make([]float64, discoveryCell)
	counts[cell]++
	for i := 1; i < discoveryRows; i++ {
		counts[218+9*10+(10+i%90)/10-1]++ // 10 to 99: the first digit
	}
	out := make([]float64, discoveryCell)
	for k := range out {
		for j := range k + 1 {
			out[k] += c.rho[k-j] * counts[j]
		}
	}
	return out
}
