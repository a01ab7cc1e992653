// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

// crowd says whose the records of a pair are. A nil crowd makes every record a unit of its own.
type crowd struct {
	erm.Persons
	ids [2][]string
}

// problem makes the records of data set i the problem of persons.
func (w *crowd) problem(
	ctx context.Context, i int, list []record, bounds loss.Bounds, l loss.Loss, k kinks,
) (*erm.Problem, error) {
	b, err := erm.NewBuilder(len(list[0].a), false, bounds)
	if err != nil {
		return nil, err
	}
	for j, r := range list {
		b.Add(r.a, r.b)
		b.ID(w.ids[i][j])
	}
	data, err := b.ByPerson(ctx, w.Persons)
	if err != nil {
		return nil, err
	}
	reg, set := k.parts()
	n, _ := data.Dims()
	return &erm.Problem{Data: data, Loss: l, Reg: reg, Set: set, Records: n}, nil
}

// counted returns the records of data set i that a fit must count and their weights and
// persons, from the rule that erm.Persons documents, without the code behind it. The records are
// forced into their bounds.
func (w *crowd) counted(i int, list []record) (kept []record, weights []float64, owners []string) {
	lines := map[string][]record{}
	for j, id := range w.ids[i] {
		lines[id] = append(lines[id], list[j])
	}
	for id, all := range lines {
		person := sha256.Sum256([]byte("privopt person\n" + id))
		hash := func(r record) []byte {
			text := append([]byte("privopt line\n"), person[:16]...)
			text = binary.LittleEndian.AppendUint64(text, math.Float64bits(r.b))
			for j, v := range r.a {
				if v != 0 {
					text = binary.LittleEndian.AppendUint32(text, uint32(j))
					text = binary.LittleEndian.AppendUint64(text, math.Float64bits(v))
				}
			}
			sum := sha256.Sum256(text)
			return sum[:16]
		}
		slices.SortStableFunc(all, func(r, s record) int { return bytes.Compare(hash(r), hash(s)) })
		all = all[:min(len(all), w.Rows)]
		share := 1 / float64(len(all))
		if w.Weights == erm.LinesEqual {
			share = 1 / float64(w.Rows)
		}
		for _, r := range all {
			kept, weights = append(kept, r), append(weights, share)
			owners = append(owners, id)
		}
	}
	return kept, weights, owners
}

// persons is logistic regression on a pair of persons: 12 persons with the given number of lines
// each and one more, whose lines are one or other; without other the person is missing on the
// second side.
func persons(p erm.Persons, lines int, one, other []record) *linear {
	w := &crowd{Persons: p}
	var data [2][]record
	for who := range 12 {
		for k, r := range sample(lines, len(one[0].a), fmt.Sprint("person ", who)) {
			r.b = 1
			if k >= p.Rows {
				r.b = -1 // a rule that looks at places keeps other labels than the hash
			}
			for i := range data {
				data[i], w.ids[i] = append(data[i], r), append(w.ids[i], fmt.Sprint(who))
			}
		}
	}
	for i, last := range [2][]record{one, other} {
		for _, r := range last {
			data[i], w.ids[i] = append(data[i], r), append(w.ids[i], "last")
		}
	}
	c := logistic(lop.Mechanism{Relation: dp.Replace}, data)
	c.crowd = w
	return c
}

// repeated returns n copies of r.
func repeated(n int, r record) []record { return slices.Repeat([]record{r}, n) }

// opposed are persons whose lines have opposite gradients of the largest norm: all in one
// direction, or all in the other.
func opposed(n int) (one, other []record) {
	return repeated(n, axis(5, 1, 1)), repeated(n, axis(5, 1, -1))
}

// parallel are persons whose lines are nearly parallel, on either side of an axis.
func parallel() (one, other []record) {
	for k := range 4 {
		angle := 1e-3 * (float64(k) - 1.5)
		r := axis(5, math.Cos(angle), 1)
		r.a[1] = math.Sin(angle)
		one, other = append(one, r), append(other, record{r.a, -1})
	}
	return one, other
}

// threeClasses is multinomial regression on persons with pure noise, at a ridge near the trace ⅔ of
// the Hessian of a record, whose largest eigenvalue is at most ½.
func threeClasses(ridge float64) *linear {
	c := withBudget(persons(erm.Persons{Rows: 4}, 3, repeated(4, axis(6, 1, 2)), repeated(4, axis(6, 1, 0))), 1, 0)
	c.loss, c.bounds.Label = loss.Multinomial{Classes: 3}, 2
	c.mech = logistic(lop.Mechanism{Ridge: ridge}, c.data).mech
	return c
}

// personSettings are the cases of persons.
func personSettings() []setting[linear] {
	equal, lines := erm.Persons{Rows: 4}, erm.Persons{Rows: 6, Weights: erm.LinesEqual}
	one, other := opposed(4)
	left, right := parallel()
	many, few := opposed(50)
	return []setting[linear]{
		{"persons, opposite lines", "A14", "white output cover", persons(equal, 3, one, other)},
		{"persons, nearly parallel lines", "A14", "white cover", persons(equal, 4, left, right)},
		{"persons, many lines", "A14", "white cover", persons(equal, 50, many, few)},
		{"persons, lines of one weight", "A14", "white cover", persons(lines, 5, one, other)},
		{"persons, one missing", "A14", "white cover", persons(equal, 3, many, nil)},
		{"persons, three classes", "A14", "white", threeClasses(2)},
	}
}

// personControls are the sabotages of persons.
func personControls() []Control {
	return []Control{
		{"line-weight", "weights of lines rounded up to a power of two", "lop/A14/persons, opposite lines cover", 0,
			one(fault.LineWeight, func(w float64) float64 { return math.Exp2(math.Ceil(math.Log2(w))) })},
		{"line-order", "the lines of a person that stand first kept", "lop/A14/persons, many lines cover", 0,
			one(fault.LineOrder, func(order []int) []int {
				order = slices.Clone(order)
				slices.Sort(order)
				return order
			})},
		{"person-trace", "the largest eigenvalue of a Hessian for its trace", "lop/A14/persons, three classes", 0,
			instead(threeClasses(2 * 4 / 3.0))},
	}
}
