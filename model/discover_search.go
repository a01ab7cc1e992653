// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/table"
)

// searcher is one run of a plan.
type searcher struct {
	pl     *DiscoveryPlan
	u      *table.Undeclared
	cert   dp.Certificate // with the assumption about a source of the caller
	f      *fault.Set
	src    rand.Source
	matrix map[int]*release.Root
}

// noisy returns k + round(σX), cut to ±release.Most.
func (s *searcher) noisy(k []int64, sigma float64) []int64 {
	out := make([]int64, len(k))
	release.Noise{Sigma: sigma}.Fill(out, s.src)
	for i, v := range k {
		out[i] = min(max(out[i]+v, -release.Most), release.Most)
	}
	return out
}

// prefixes releases weighted sums of the cells and returns the estimates of their prefix sums, with
// their deviation, and the sums.
func (s *searcher) prefixes(cells []int64, shift float64) (prefix []float64, deviation float64, line string) {
	m := s.matrix[len(cells)]
	if m == nil {
		m = release.NewRoot(len(cells))
		s.matrix[len(cells)] = m
	}
	sigma, deviation := prefixNoise(m, s.pl.relation, shift/s.pl.parts())
	sums := s.noisy(m.Times(fault.At(s.f, fault.Cells, cells)), sigma)
	y, words := make([]float64, len(sums)), make([]string, len(sums))
	for i, v := range sums {
		y[i], words[i] = float64(v), strconv.FormatInt(v, 10)
	}
	prefix, sum := m.Solve(y), 0.0
	for i, v := range prefix {
		sum += v
		prefix[i] = sum
	}
	return prefix, deviation, strings.Join(words, " ")
}

// plot is what the kinds of a column decide.
type plot struct {
	verdict        verdict
	whole, missing bool
	weight         float64
}

// run releases the counts, and returns the schema that follows.
func (s *searcher) run() *table.Schema {
	pl, names := s.pl, s.u.Columns()
	label, l := s.u.Label()
	found := &table.Discovered{Theorem: pl.cert.Theorem, Epsilon: pl.budget.Epsilon, Delta: pl.budget.Delta,
		Neighbors: pl.relation, Assumptions: s.cert.Assumptions, Mu: pl.t}
	if pl.choices.Rows > 0 {
		found.Parts = table.PersonParts
	}
	plots, total := make([]plot, len(names)), 0.0
	keyed := 0
	sigma := pl.kindSigma(s.f)
	for j, name := range names {
		counts := s.u.Kinds(j)
		a := s.noisy(counts[:], sigma)
		p := &plots[j]
		p.verdict, p.whole, p.missing = kindCounts{Missing: float64(a[0]), Whole: float64(a[1]), Other: float64(a[2]),
			Text: float64(a[3])}.decide(sigma)
		if p.verdict != holdsNothing {
			p.weight = 1
		}
		if j == label && p.verdict == holdsNumber && pl.choices.Task == "" {
			p.weight = 2 // for spellings and for a range
		}
		total += p.weight
		if p.verdict == holdsText || j == label {
			keyed++
		}
		found.Columns = append(found.Columns, table.DiscoveredColumn{Name: name, Kinds: ints(a)})
	}
	var columns []table.Column
	for j, name := range names {
		p, c := plots[j], &found.Columns[j]
		if p.weight == 0 {
			c.Note = "neither numbers nor text in enough fields to stand out from the noise"
			if j == label {
				found.Problem = fmt.Sprintf("the label %q has too few fields with a meaning to stand out from the noise", name)
				continue
			}
			columns = append(columns, table.Column{Name: name, Ignore: true})
			continue
		}
		part := pl.part(p.weight, total)
		switch {
		case j == label:
			found.Problem = s.label(&l, c, j, p, part, keyed)
		case p.verdict == holdsText:
			columns = append(columns, s.levels(c, j, p, part, keyed))
		default:
			columns = append(columns, s.number(c, j, p, part))
		}
	}
	out := s.u.Schema(l, columns)
	out.Records, out.Neighbors = pl.records, pl.relation
	out.Discovery = found
	if !slices.ContainsFunc(out.Columns, func(c table.Column) bool { return !c.Ignore }) {
		found.Problem = cmp.Or(found.Problem, "no column showed anything but the label")
	}
	return out
}

func ints(k []int64) []int {
	out := make([]int, len(k))
	for i, v := range k {
		out[i] = int(v)
	}
	return out
}

// spellings releases the spellings of a column that are frequent enough, with their counts, sorted
// by count and then by bytes.
func (s *searcher) spellings(c *table.DiscoveredColumn, j int, part float64, keyed int) {
	sigma := s.pl.sensitivity(s.f) / part * release.SafeScale
	c.Threshold = fault.At(s.f, fault.Threshold, threshold(sigma, s.pl.chance(keyed), s.pl.parts(),
		s.pl.leastWeight()))
	type shown struct {
		text  string
		count int
	}
	var list []shown
	s.u.Spellings(j, func(text string, count int64) {
		if y := int(s.noisy([]int64{count}, sigma)[0]); y >= c.Threshold {
			list = append(list, shown{text, y})
		}
	})
	slices.SortFunc(list, func(a, b shown) int {
		return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.text, b.text))
	})
	for _, v := range list {
		c.Spellings, c.Counts = append(c.Spellings, v.text), append(c.Counts, v.count)
	}
}

// levels discovers a column of text.
func (s *searcher) levels(c *table.DiscoveredColumn, j int, p plot, part float64, keyed int) table.Column {
	s.spellings(c, j, part, keyed)
	if len(c.Spellings) == 0 {
		c.Note = "nothing repeated often enough: an identifier, free text or a rare value"
		return table.Column{Name: c.Name, Ignore: true}
	}
	return table.Column{Name: c.Name, Levels: slices.Clone(c.Spellings[:min(len(c.Spellings), s.pl.choices.Levels)]),
		Other: true, Missing: p.missing}
}

// rounds discovers the law of a column of numbers, nil if nothing shows.
func (s *searcher) rounds(c *table.DiscoveredColumn, j int, p plot, part float64) *sketch {
	at := func(round int) float64 { return part * math.Sqrt(roundShares[round]) }
	prefix, deviation, line := s.prefixes(s.count(j, numCells, cellIndex), at(0))
	c.Sums = append(c.Sums, line)
	k := newSketch(prefix, deviation, p.whole)
	for round := 1; k != nil && round < len(roundShares); round++ {
		heavy := k.Heavy()
		if len(heavy) == 0 {
			break
		}
		prefix, deviation, line := s.prefixes(s.count(j, 10*len(heavy), splitter(heavy)), at(round))
		c.Sums = append(c.Sums, line)
		k.Split(prefix, deviation)
	}
	return k
}

// count returns the counts of n cells of numbers.
func (s *searcher) count(j, n int, index func(x float64) int) []int64 {
	cells := make([]int64, n)
	s.u.Count(cells, j, index)
	return cells
}

// number discovers a column of numbers.
func (s *searcher) number(c *table.DiscoveredColumn, j int, p plot, part float64) table.Column {
	k := s.rounds(c, j, p, part)
	if k == nil {
		c.Note = "too few numbers to show a range"
		return table.Column{Name: c.Name, Ignore: true}
	}
	lo, hi := k.Range()
	switch {
	case k.Constant():
		c.Note = "nearly all fields hold the same number"
	case p.whole && s.unique(c, j, k, part):
		c.Note = "nearly all numbers differ: an identifier"
	}
	if c.Note != "" {
		return table.Column{Name: c.Name, Ignore: true}
	}
	out := table.Column{Name: c.Name, Min: &lo, Max: &hi, Other: true, Missing: p.missing}
	if edges := k.Edges(s.pl.choices.Bins); len(edges) > 0 {
		out.Bins = edges
	}
	return out
}

// unique reports whether nearly all whole numbers of a column differ, by their noisy count.
func (s *searcher) unique(c *table.DiscoveredColumn, j int, k *sketch, part float64) bool {
	sigma := s.pl.parts() / (part * math.Sqrt(distinctShare)) * release.SafeScale
	c.Distinct = int(s.noisy([]int64{s.u.Distinct(j)}, sigma)[0])
	total, deviation := k.Total()
	return float64(c.Distinct) > max(0.5*total, 0.95*total-3*math.Hypot(sigma, deviation))
}

// label discovers the label and returns a problem, "" for none.
func (s *searcher) label(
	l *table.Label, c *table.DiscoveredColumn, j int, p plot, part float64, keyed int,
) (problem string) {
	task := s.pl.choices.Task
	both := p.verdict == holdsNumber && task == ""
	if both {
		part /= math.Sqrt2
	}
	if task != Numbers {
		s.spellings(c, j, part, keyed)
	}
	n := len(c.Spellings)
	switch {
	case n == 2 || task == "" && p.verdict == holdsText && n > 2 && n <= mostClasses:
		return s.classes(l, c)
	case task == Numbers && p.verdict == holdsText:
		return fmt.Sprintf("the label %q holds text, and the task needs numbers; is it the right column?", c.Name)
	case task == TwoClasses || p.verdict == holdsText:
		return fmt.Sprintf("the label %q shows %d spellings, want 2, or up to %d for classes; is it the right column?",
			c.Name, n, mostClasses)
	}
	k := s.rounds(c, j, p, part)
	if k == nil {
		return fmt.Sprintf("the label %q shows neither classes nor a range", c.Name)
	}
	lo, hi := k.Range()
	l.Min, l.Max = &lo, &hi
	l.Unknown = "middle"
	return ""
}

// classes sets the classes of a label; the unknown ones count as the most frequent class.
func (s *searcher) classes(l *table.Label, c *table.DiscoveredColumn) (problem string) {
	most, sorted := c.Spellings[0], slices.SortedFunc(slices.Values(c.Spellings), byNumber)
	if len(sorted) > 2 {
		l.Levels, l.Unknown = sorted, most
		return ""
	}
	if positive := s.pl.choices.Positive; positive == sorted[0] {
		slices.Reverse(sorted)
	} else if positive != "" && positive != sorted[1] {
		problem = fmt.Sprintf("the label %q does not show the positive class that was named", c.Name)
	}
	l.Negative, l.Positive = sorted[:1], sorted[1:]
	l.Unknown = "positive"
	if most == sorted[0] {
		l.Unknown = "negative"
	}
	return problem
}
