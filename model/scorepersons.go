// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/sqrtsum"
	"github.com/privopt/privopt/loss"
)

// Scores of persons: what a person adds to a sum is the mean over those of its lines that count, of
// what they would add as records of their own. So sensitivities are those of one record
// (docs/theory/evaluation.md#evaluation.persons).

// personBits is how many bits finer the grid of persons is than that of records. The units of a
// count, 2⁻¹², are shared out among the lines of a person without a remainder.
const personBits = 12

// mostPersons bounds their number: sums of 2¹² units a person stay below sqrtsum.MostRecords, and
// those of 2³² units below 2⁶⁰.
const mostPersons = sqrtsum.MostRecords >> personBits

// unit returns how many units of TestSet.counts a record or a person adds.
func (s *subject) unit() int64 {
	if s.rows > 0 {
		return 1 << personBits
	}
	return 1
}

// units names the units of privacy.
func (s *subject) units() string {
	if s.rows > 0 {
		return "persons"
	}
	return "records"
}

// most returns the largest number of units of privacy.
func (s *subject) most() int { return int(sqrtsum.MostRecords / s.unit()) }

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
	case s.rows != p.Rows:
		return fmt.Errorf("%w: the model is one of persons with up to Rows = %d lines, and the test set has %d, 0 for "+
			"records: want data from erm.OpenByPerson with the Rows of the model, or the table as CSV", dp.ErrCondition, s.rows,
			p.Rows)
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
	behind, before := int64(0), int64(0)
	for i, c := range counts {
		behind += int64(c)
		end := (behind<<(personBits+1) + lines) / (2 * lines)
		t.counts[i] += end - before
		before = end
	}
	for i, s := range sums {
		t.sums[i] += int64(s) << personBits / lines
	}
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
	data, err := l.b.ByPerson(ctx, erm.Persons{Rows: t.subject.rows})
	if err != nil {
		return err
	}
	return t.addPersons(ctx, data, func(a []float64, _ float64) judgment {
		return judgment{cell: int(a[0]), steps: int64(a[1]), e: a[2], f: a[3], label: a[4]}
	})
}
