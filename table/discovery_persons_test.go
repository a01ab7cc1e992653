// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// countsOf returns everything that a search counts: kinds, spellings, and numbers in cells.
func countsOf(u *Undeclared) map[string]int64 {
	out := map[string]int64{}
	for j := range u.Columns() {
		for k, v := range u.Kinds(j) {
			out[fmt.Sprint("kind ", j, " ", k)] = v
		}
		u.Spellings(j, func(s string, n int64) { out[fmt.Sprint("text ", j, " ", s)] = n })
		cells := make([]int64, 5)
		u.Count(cells, j, func(x float64) int { return int(x) })
		for k, v := range cells {
			out[fmt.Sprint("cell ", j, " ", k)] = v
		}
	}
	return out
}

// TestDiscoveryOnePerson: a person adds weights of PersonParts in all to each histogram. They
// depend on the lines of that person alone, not on their order nor on the lines of others. Persons
// have up to thrice the lines that count, equal ones among them.
func TestDiscoveryOnePerson(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for _, weights := range []string{"", "persons", "rows"} {
		for _, rows := range []int{1, 2, 7, 600, 1024} {
			d := named("y")
			d.Person, d.Rows, d.Weights = "id", rows, weights
			read := func(lines []string) *Undeclared {
				return discovered(t, d, "x,id,c,y\n"+strings.Join(lines, "\n")+"\n")
			}
			person := func(id string) (lines []string) {
				for range 1 + rnd.IntN(3*rows) {
					lines = append(lines, fmt.Sprintf("%d,%s,%s,%d", rnd.IntN(7)-1, id,
						[]string{"u", "v", "?", id, fmt.Sprint(rnd.IntN(9))}[rnd.IntN(5)], rnd.IntN(2)))
				}
				return lines
			}
			one, others := person("one"), append(person(" a "), person("b")...)
			others = append(others, "3,,u,1", "3,?,u,1", "") // nobody's
			all := slices.Concat(one, others)
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			alone, rest, whole := read(one), read(others), read(all)
			require.Equal(t, 1, alone.Records())
			require.Equal(t, 2, rest.Records())
			require.Equal(t, 3, whole.Records())
			sum := countsOf(rest)
			for k, v := range countsOf(alone) {
				sum[k] += v
			}
			require.Equal(t, sum, countsOf(whole))
			least := int64(PersonParts / rows)
			for j := range 3 {
				total, spelled := int64(0), int64(0)
				for _, v := range alone.Kinds(j) {
					total += v
				}
				require.LessOrEqual(t, total, int64(PersonParts))
				if weights != "rows" {
					require.Greater(t, total, int64(PersonParts-rows))
				}
				alone.Spellings(j, func(_ string, n int64) {
					require.GreaterOrEqual(t, n, least)
					spelled += n
				})
				require.LessOrEqual(t, spelled, total)
				more := whole.Distinct(j) - rest.Distinct(j)
				require.True(t, 0 <= more && more <= PersonParts, more)
			}
		}
	}
}

// TestDiscoveryPersonRefuses: what is declared about persons is checked before a line is read.
func TestDiscoveryPersonRefuses(t *testing.T) {
	for want, d := range map[string]Discovery{
		"rows: not declared":              {Person: "id"},
		"rows: 1025, want":                {Person: "id", Rows: 1025},
		`rows: 5 without "person"`:        {Rows: 5},
		"person: \"y\" is also label":     {Person: "y", Rows: 5},
		"the file has no column \"who\"":  {Person: "who", Rows: 5},
		"the ids of persons: want \"id\"": {Person: "id", Rows: 5, File: File{Fields: []string{"a", "y"}}},
		"also a feature": {Person: "id", Rows: 5,
			Declared: []Column{{Name: "id", Levels: []string{"a"}, Other: true}}},
	} {
		d.Label.Column = "y"
		_, err := d.Read(strings.NewReader("x,id,y\n1,p,1\n"))
		require.ErrorContains(t, err, want)
	}
}
