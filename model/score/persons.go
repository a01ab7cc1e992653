// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

// Scores of persons: what a person adds to a sum is the mean over those of its lines that count, of
// what they would add as records of their own. So sensitivities are those of one record
// (docs/theory/evaluation.md#evaluation.persons).

// personBits is how many bits finer the grid of persons is than that of records. The units of a
// count, 2⁻¹², are shared out among the lines of a person without a remainder.
const personBits = 12

// mostPersons bounds their number: sums of 2¹² units a person stay below release.MostRooted, and
// those of 2³² units below 2⁶⁰.
const mostPersons = release.MostRooted >> personBits

// unit returns how many units of TestSet.counts a record or a person adds.
func (s *subject) unit() int64 {
	if s.rows > 0 {
		return 1 << personBits
	}
	return 1
}

// units names the units of privacy.
func (s *subject) units() string { return release.Units(s.rows) }

// most returns the largest number of units of privacy.
func (s *subject) most() int { return int(release.MostRooted / s.unit()) }

// mostSigma bounds the noise of a block: with the steps of its grid, 2⁻³² at the finest, its
// integers stay below 2⁶⁰.
func (s *subject) mostSigma() float64 { return 0x1p30 / float64(s.unit()) }

// grids returns how to make a block of counts, and one of fractions of 2⁻²⁰.
func (s *subject) grids() (count, fraction func(name string, share, sensitivity float64) Block) {
	finer := 0
	if s.rows > 0 {
		finer = personBits
	}
	at := func(exponent int) func(name string, share, sensitivity float64) Block {
		return func(name string, share, sensitivity float64) Block {
			return Block{Name: name, Share: share, Sensitivity: sensitivity, exponent: exponent - finer}
		}
	}
	return at(0), at(-scaleBits)
}

// checkUnit returns an error unless the units of privacy of data are those of the models.
func (s *subject) checkUnit(data *erm.Data) error {
	p, ok := data.Persons()
	switch {
	case ok && s.rows == 0:
		return fmt.Errorf("%w: the test set is by person and the model has no persons: want a model with \"person\" in its "+
			"schema, or data without ids", dp.ErrCondition)
	case s.rows != p.Rows || s.person != p.Column:
		return fmt.Errorf("%w: the model is one of persons of the column %.40q with up to Rows = %d lines, and the test "+
			"set of %.40q with %d, 0 for records: want data from erm.OpenByPerson with the Persons of the model's Encoder, or "+
			"the table as CSV", dp.ErrCondition, s.person, s.rows, p.Column, p.Rows)
	}
	return nil
}

// addPersons adds the persons of data, whose lines have the judgments that judge returns.
func (t *TestSet) addPersons(ctx context.Context, data *erm.Data, judge func(a []float64, b float64) judgment) error {
	counts := len(t.counts)
	last := counts + len(t.sums) // how many lines
	add := func(dst []float64, _ float64, a []float64, b float64) {
		o := judge(a, b)
		dst[o.cell]++
		t.subject.fractions(o, func(i int, steps int64) { dst[counts+i] += float64(steps) })
		dst[last]++
	}
	err := data.EachPerson(ctx, last+1, math.Inf(1), add, func(v []float64) {
		t.addPerson(v[:counts], v[counts:last], int64(v[last]))
	})
	if err == nil && t.n > mostPersons {
		err = fmt.Errorf("%w: more than 2²⁸ persons", ErrOptions)
	}
	return err
}

// addPerson adds a person with the given counts and sums over its lines, all of them integers. The
// units of the counts are shared out in the order of the cells, each end rounded: they add up to
// 2¹². Means of sums are rounded towards zero.
func (t *TestSet) addPerson(counts, sums []float64, lines int64) {
	t.n++
	lines = fault.At(t.faults, fault.PersonLines, lines)
	c := fault.At(t.faults, fault.BendFactor, 4*bendFactor)
	behind, before := int64(0), int64(0)
	own := make([]int64, len(counts))
	for i, k := range counts {
		behind += int64(k)
		end := (behind<<(personBits+1) + lines) / (2 * lines)
		own[i] = end - before
		t.counts[i] += own[i]
		before = end
	}
	t.inner.add(&t.subject, own, c)
	for i, s := range sums {
		mean := int64(s) << personBits / lines
		t.sums[i] += mean
		switch {
		case t.subject.against != nil:
			t.bends[i] += dome(mean, scaleBits+personBits)
		case t.bends != nil:
			t.bends[i] += bend(mean, 1<<(scaleBits+personBits)-mean, scaleBits+personBits, c)
		}
	}
}

// inner holds sums over persons that tell how much the lines of a person differ, in the units of
// counts.
type inner struct {
	pairs [6]int64 // bends of two of the four counts of predictions or of pairs of them
	right int64    // bend of right and wrong predictions
}

// add adds a person with these counts; c is four times the factor of bend.
func (w *inner) add(s *subject, own []int64, c int64) {
	if s.kind == table.Range {
		return
	}
	var four [4]int64
	right := int64(0)
	for i, v := range own {
		if s.against != nil {
			four[i] += v
			continue
		}
		truth, said := s.classesOf(i)
		if truth == said {
			right += v
		}
		if s.kind == table.Binary {
			four[2*truth+said] += v
		}
	}
	w.right += bend(right, 1<<personBits-right, personBits, c)
	for k, p := range pairsOfFour {
		w.pairs[k] += bend(four[p[0]], four[p[1]], personBits, c)
	}
}

// pairsOfFour are the pairs of four cells.
var pairsOfFour = [6][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}

// bendFactor is the factor of bend: with a square of at most 8, bends leave sensitivities as they
// are (docs/theory/evaluation.md#evaluation.squares).
const bendFactor = 2.75

// bend returns c/4·xy in units of 2^−bits, rounded down, for x, y ≥ 0 with a sum of at most 1.
func bend(x, y int64, bits int, c int64) int64 { return product(c*x, y, bits) / 4 }

// dome returns 1 − v² in units of 2^−bits, rounded down, for v in [−1, 1].
func dome(v int64, bits int) int64 { return product(1<<bits-v, 1<<bits+v, bits) }

// product returns xy/2^b, rounded down, for x, y ≥ 0.
func product(x, y int64, b int) int64 {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	return int64(hi<<(64-b) | lo>>b)
}

// judgments are those of the lines of persons, with their ids. Of more than Rows lines of a person
// those count whose judgments have the least hashes, see [erm.Persons].
type judgments struct{ b *erm.Builder }

func newJudgments() (*judgments, error) {
	// No judgment is as long as the bound, so that none is changed.
	b, err := erm.NewBuilder(5, false, loss.Bounds{Row: 0x1p40, Label: 1})
	return &judgments{b}, err
}

func (l *judgments) add(o judgment, id string) {
	l.b.Add([]float64{float64(o.cell), float64(o.steps), o.e, o.f, o.label}, 0)
	if id != "" {
		l.b.ID(id)
	}
}

// addTo adds the persons to a test set.
func (l *judgments) addTo(ctx context.Context, t *TestSet) error {
	data, err := l.b.ByPerson(ctx, erm.Persons{Rows: t.subject.rows, Column: t.subject.person})
	if err != nil {
		return err
	}
	return t.addPersons(ctx, data, func(a []float64, _ float64) judgment {
		return judgment{cell: int(a[0]), steps: int64(a[1]), e: a[2], f: a[3], label: a[4]}
	})
}
