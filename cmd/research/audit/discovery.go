// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gonum.org/v1/gonum/mathext"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// discovery is a search for a schema in two neighboring tables of three columns. On each side one
// record has a number on the boundary of two cells, and a spelling of its own. If rows is positive,
// the records are persons with one to three lines, or with more than rows, and that person has rows
// lines with a spelling each.
type discovery struct {
	rows   int
	wrong  string // how the tables are misread: see misread
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
	manyLines     = 64   // that count
	parts         = 1024 // of a person
)

func discoveryMechanisms() []mechanism {
	const name = "discover/A2/spellings and cells"
	lower := sync.OnceValue(func() int {
		c := discovery{rows: manyLines}
		if err := c.prepare(); err != nil {
			panic(err)
		}
		_, key := c.scales()
		return int(math.Ceil(0.5 + parts - parts*key*num.NormalQuantile(c.q/2)))
	})
	return []mechanism{{
		name: "discover",
		cases: []Case{
			{Name: "A2/spellings and cells", Pair: "A2", Layer: WhiteBox, run: discovery{}.white},
			{Name: "A14/persons", Pair: "A14", Layer: WhiteBox, run: discovery{rows: manyLines}.white},
		},
		controls: []Control{
			{"threshold", "the threshold of spellings is lower by 15", name, 600,
				edit(fault.Threshold, func(t *int) { *t -= 15 })},
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
			{"search-weight", "the weight of a line rounded up to that of a person", "discover/A14/persons", 600,
				misread("weight")},
			{"search-order", "the lines of a person that stand first kept", "discover/A14/persons", 600, misread("order")},
			{"search-threshold", "a threshold for one spelling of a person, not for one in each line",
				"discover/A14/persons", 600, edit(fault.Threshold, func(t *int) { *t = lower() })},
		},
	}}
}

// misread is a sabotage that reads the tables in a wrong way. The first takes the place of both.
func misread(how string) sabotage {
	wrong := sync.OnceValue(func() *table.Undeclared {
		c := discovery{rows: manyLines, wrong: how}
		if err := c.prepare(); err != nil {
			panic(err)
		}
		return c.tables[0]
	})
	return one(fault.NewStep[*table.Undeclared](fault.SearchTable), func(*table.Undeclared) *table.Undeclared {
		return wrong()
	})
}

// lines returns the lines of the record or person i, whose fields are given. Of more than rows
// lines of a person those behind have another number.
func (c *discovery) lines(i int, x, text, y string) (lines []string) {
	k := 1
	switch {
	case c.rows == 0:
		return []string{x + "," + text + "," + y}
	case i == 0:
		k = c.rows
	case i%4 == 0:
		k = c.rows * 3 / 2
	default:
		k = i % 4
	}
	for j := range k {
		who, own := fmt.Sprint("p", i), text
		switch {
		case i == 0:
			own += fmt.Sprint(j)
		case i%4 == 0:
			x = []string{fmt.Sprint(10 + j%10), fmt.Sprint(90 + j%10)}[j/c.rows]
		}
		if c.wrong == "weight" {
			who += fmt.Sprint("line", j)
		}
		if c.wrong != "order" || j < c.rows {
			lines = append(lines, x+","+own+","+y+","+who)
		}
	}
	return lines
}

// counted returns the numbers of the lines of i > 0 that count, and the weight of each.
func (c *discovery) counted(i int) (x []int, weight float64) {
	lines := c.lines(i, fmt.Sprint(10+i%90), "all", []string{"yes", "no"}[i%2])
	weight = 1
	if c.rows > 0 { // those with the least digests of all fields, each after its length
		slices.SortFunc(lines, func(a, b string) int { return bytes.Compare(digest(a), digest(b)) })
		lines = lines[:min(len(lines), c.rows)]
		weight = float64(parts / len(lines))
	}
	for _, line := range lines {
		v, _ := strconv.Atoi(line[:2])
		x = append(x, v)
	}
	return x, weight
}

func digest(line string) []byte {
	var text []byte
	for _, f := range strings.Split(line, ",") {
		text = append(binary.LittleEndian.AppendUint64(text, uint64(len(f))), f...)
	}
	sum := sha256.Sum256(text)
	return sum[:16]
}

// unit returns what one record or person adds to a count.
func (c *discovery) unit() float64 {
	if c.rows > 0 {
		return parts
	}
	return 1
}

// scales returns the noise of the kinds and of the spellings, in records or persons.
func (c *discovery) scales() (kind, key float64) {
	return math.Sqrt(2*3/0.02) / c.shift, math.Sqrt2 / (math.Sqrt(0.98/3) * c.shift)
}

// prepare plans, and computes the scale of the noise and the weights of the sums again.
func (c *discovery) prepare() error {
	b := dp.Budget{Epsilon: 4, Delta: 0.1}
	read, header := table.Discovery{Label: table.Label{Column: "y"}}, "x,c,y"
	if c.rows > 0 {
		b.Epsilon = 1 // the threshold is that of lines, not of a person
		read.Person, read.Rows = "who", c.rows
		header = "x,c,y,who"
	}
	for side, first := range [][2]string{{"-2", "mine"}, {"-1e15", "yours"}} {
		lines := append([]string{header}, c.lines(0, first[0], first[1], "yes")...)
		for i := 1; i < discoveryRows; i++ {
			lines = append(lines, c.lines(i, fmt.Sprint(10+i%90), "all", []string{"yes", "no"}[i%2])...)
		}
		var err error
		c.tables[side], err = read.Read(strings.NewReader(strings.Join(lines, "\n") + "\n"))
		if err != nil {
			return err
		}
	}
	var err error
	o := &model.Options{Discover: &model.Discovery{Rows: c.rows, Person: read.Person}}
	if c.plan, err = model.NewDiscoveryPlan(3, discoveryRows, b, o); err != nil {
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

// white recovers the noise of all counts and of some sums, and counts how often an own
// spelling is shown.
func (c discovery) white(ctx context.Context, e *env) (Finding, error) {
	own := c
	if err := own.prepare(); err != nil {
		return Finding{}, err
	}
	part := math.Sqrt(0.98/3) * own.shift
	kind, key := own.scales()
	unit := own.unit()
	kind, key = kind*unit, key*unit
	sums := own.sensitivity() / (part * math.Sqrt(0.55)) * unit
	exact := [2][]float64{own.sums(cellOfTwo), own.sums(cellOfBig)}
	watched := []int{0, 1, 2, 3, 4, cellOfTwo - 1, cellOfTwo, cellOfTwo + 1, 218, 312, 434}
	total := [2]float64{unit, 0} // of yes and no
	for i := 1; i < discoveryRows; i++ {
		x, w := own.counted(i)
		total[i%2] += float64(len(x)) * w
	}
	side, seen := 0, 0
	runs := 0
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
					mean = total[0] + total[1]
				}
				z = append(z, score(float64(n), mean, kind))
			}
			for _, common := range [][]string{{}, {"all"}, {"yes", "no"}}[j] {
				if k := slices.Index(col.Spellings, common); k >= 0 { // in a fixed order, unlike the released one
					mean := map[string]float64{"all": total[0] + total[1] - unit, "yes": total[0], "no": total[1]}[common]
					z = append(z, score(float64(col.Counts[k]), mean, key))
				}
			}
			if slices.ContainsFunc(col.Spellings, func(s string) bool {
				return strings.HasPrefix(s, "mine") || strings.HasPrefix(s, "yours")
			}) {
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
	counts[cell] += c.unit()
	for i := 1; i < discoveryRows; i++ {
		list, weight := c.counted(i)
		for _, x := range list {
			counts[218+9*10+x/10-1] += weight // 10 to 99: the first digit
		}
	}
	out := make([]float64, discoveryCell)
	for k := range out {
		for j := range k + 1 {
			out[k] += c.rho[k-j] * counts[j]
		}
	}
	return out
}
