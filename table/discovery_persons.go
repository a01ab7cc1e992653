// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/privopt/privopt/erm"
)

// PersonParts is the weight of a person in a private search for a schema. Each of the k lines of a
// person that count weighs ⌊PersonParts/k⌋, or ⌊PersonParts/Rows⌋ if all lines weigh the same, so
// that the integer weights of a person add up to at most PersonParts.
const PersonParts = erm.MaxRows

// mostPersons bounds the persons of a search: sums of weighted cells stay below 2⁶⁰.
const mostPersons = 1 << 30

// asSchema returns a schema with what is declared about persons.
func (d Discovery) asSchema() *Schema {
	return &Schema{Label: Label{Column: d.Label.Column}, Person: d.Person, Rows: d.Rows, Weights: d.Weights,
		Columns: d.Declared}
}

// Persons returns what is declared about persons; ok is false if every line is a record of its own.
func (u *Undeclared) Persons() (p erm.Persons, ok bool) { return u.d.asSchema().persons() }

// idLine is a line with an id: the digests of the id and of the whole line, and its position.
type idLine struct {
	id, line [16]byte
	at       int
}

// readPersons reads the lines twice: first it finds those that count, then it counts their fields.
// Which lines of a person count, and their weights, is a function of the lines of that person, in
// any order.
func (u *Undeclared) readPersons(t *text, missing map[string]bool) error {
	var list []idLine
	at := 0
	err := u.lines(t, func(fields [][]byte) {
		if len(fields) > 0 {
			if id := bytes.TrimSpace(fields[u.person]); len(id) > 0 && !missing[string(fields[u.person])] {
				list = append(list, idLine{digestOf(id), digestOf(fields...), at})
			}
		}
		at++
	})
	if err != nil {
		return err
	}
	weights := make([]int64, at) // 0 for a line that does not count
	slices.SortFunc(list, func(a, b idLine) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), bytes.Compare(a.line[:], b.line[:]), cmp.Compare(a.at, b.at))
	})
	p, _ := u.Persons()
	for lo := 0; lo < len(list); u.units++ {
		hi := lo + 1
		for hi < len(list) && list[hi].id == list[lo].id {
			hi++
		}
		kept := min(hi-lo, p.Rows)
		lines := kept
		if p.Weights == erm.LinesEqual {
			lines = p.Rows
		}
		for _, l := range list[lo : lo+kept] {
			weights[l.at] = int64(PersonParts / lines)
		}
		lo = hi
	}
	if u.units > mostPersons {
		return wrong("more than 2³⁰ persons")
	}
	for j := range u.columns {
		u.columns[j].weights = []int64{}
	}
	if t, err = u.d.File.text(bytes.NewReader(u.text), false); err != nil {
		return err
	}
	t.single = !u.d.File.Multiline
	if u.d.File.Fields == nil {
		if _, err := t.names("a header line"); err != nil {
			return err
		}
	}
	at = 0
	return u.lines(t, func(fields [][]byte) {
		if w := weights[at]; w > 0 {
			u.add(fields, missing, w)
		}
		at++
	})
}

// digestOf returns the first half of the SHA-256 of fields, each after its length.
func digestOf(fields ...[]byte) [16]byte {
	h := sha256.New()
	var size [8]byte
	for _, f := range fields {
		binary.LittleEndian.PutUint64(size[:], uint64(len(f)))
		h.Write(size[:])
		h.Write(f)
	}
	return [16]byte(h.Sum(nil))
}
