// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package dp

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func cert(eps, delta float64, theorem string, a ...Assumption) Certificate {
	return Certificate{Budget: Budget{eps, delta}, Relation: Replace, Theorem: theorem, Assumptions: a}
}

func TestCompose(t *testing.T) {
	c, err := Basic(cert(0.5, 1e-6, "lop.kifer/2", CalibrationArithmetic),
		cert(0.25, 0, "qop.lsq/2", CallerSource, CalibrationArithmetic))
	require.NoError(t, err)
	require.Equal(t, cert(0.75, 1e-6, "dp.basic/1(lop.kifer/2, qop.lsq/2)", CalibrationArithmetic, CallerSource), c)

	again, err := Basic(c, cert(1, 0, "lop.pure/2"))
	require.NoError(t, err)
	require.Equal(t, "dp.basic/1(dp.basic/1(lop.kifer/2, qop.lsq/2), lop.pure/2)", again.Theorem)
}

func TestComposeRefuses(t *testing.T) {
	good, other := cert(1, 0, "a/1"), cert(1, 0, "a/1")
	other.Relation = AddRemove
	unset := cert(1, 0, "a/1")
	unset.Relation = 0
	for _, c := range []struct {
		want  error
		parts []Certificate
	}{
		{ErrCondition, nil},
		{ErrCondition, []Certificate{good, cert(1, 0, "")}},
		{ErrRelation, []Certificate{good, other}},
		{ErrRelation, []Certificate{unset, unset}},
		{ErrBudget, []Certificate{good, {}}},
		{ErrBudget, []Certificate{cert(math.NaN(), 0, "a/1")}},
		{ErrBudget, []Certificate{cert(1, 0.6, "a/1"), cert(1, 0.6, "a/1")}},
		{ErrBudget, []Certificate{cert(6e4, 0, "a/1"), cert(6e4, 0, "a/1")}},
	} {
		sum, err := Basic(c.parts...)
		require.ErrorIs(t, err, c.want)
		require.Equal(t, Certificate{}, sum)
	}
}

// TestComposeRoundsUp compares the sum with exact rational arithmetic.
func TestComposeRoundsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exact := [2]*big.Rat{new(big.Rat), new(big.Rat)}
		var parts []Certificate
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			e := math.Exp(rapid.Float64Range(-30, 3).Draw(t, "log eps"))
			d := math.Exp(rapid.Float64Range(-300, -4).Draw(t, "log delta"))
			parts = append(parts, cert(e, d, "a/1"))
			exact[0].Add(exact[0], new(big.Rat).SetFloat64(e))
			exact[1].Add(exact[1], new(big.Rat).SetFloat64(d))
		}
		sum, err := Basic(parts...)
		require.NoError(t, err)
		for i, got := range []float64{sum.Epsilon, sum.Delta} {
			require.GreaterOrEqual(t, new(big.Rat).SetFloat64(got).Cmp(exact[i]), 0)
			want, _ := exact[i].Float64()
			require.InEpsilon(t, want, got, 20*0x1p-52) // one unit a part
		}
	})
}

func TestCertificateString(t *testing.T) {
	require.Equal(t, `(ε = 1, δ = 1e-06)-differentially private, replace neighbors
  theorem: qop.lsq/2
  assumes: `+string(CalibrationArithmetic)+"\n  "+model, cert(1, 1e-6, "qop.lsq/2", CalibrationArithmetic).String())
}

func TestCertificateJSON(t *testing.T) {
	r := Release{Theta: []float64{1, -0.5}, Certificate: cert(1, 1e-6, "qop.lsq/2", CallerSource)}
	b, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"theta": [1, -0.5], "certificate": {"epsilon": 1, "delta": 1e-6, "relation": "replace",
		"theorem": "qop.lsq/2", "assumptions": ["`+string(CallerSource)+`"]}}`, string(b))
	var back Release
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, r, back)

	b, err = json.Marshal(cert(1, 0, "a/1"))
	require.NoError(t, err)
	require.Contains(t, string(b), `"assumptions":[]`)
	_, err = json.Marshal(Certificate{})
	require.ErrorContains(t, err, "relation")
	require.ErrorIs(t, json.Unmarshal([]byte(`{"relation": "both"}`), &Certificate{}), ErrRelation)
}

func TestBudget(t *testing.T) {
	require.NoError(t, Budget{MinEpsilon, MinDelta}.Check())
	require.NoError(t, Budget{MaxEpsilon, 0}.Check())
	for _, b := range []Budget{{}, {1, 1}, {1, 1.5}, {1, -1e-9}, {1, 1e-320}, {math.Inf(1), 0}, {1, math.NaN()},
		{1e-320, 0}} {
		require.ErrorIs(t, b.Check(), ErrBudget)
	}
	require.ErrorContains(t, Budget{0, 0}.Check(), "Epsilon = 0")
	rapid.Check(t, func(t *rapid.T) {
		b := Budget{rapid.Float64Range(1e-10, 1e5).Draw(t, "eps"), rapid.Float64Range(0, 1).Draw(t, "delta")}
		x, y := b.Split(rapid.Float64Range(0, 1).Draw(t, "share"))
		for _, v := range [][3]float64{{b.Epsilon, x.Epsilon, y.Epsilon}, {b.Delta, x.Delta, y.Delta}} {
			sum := new(big.Rat).Add(new(big.Rat).SetFloat64(v[1]), new(big.Rat).SetFloat64(v[2]))
			require.LessOrEqual(t, sum.Cmp(new(big.Rat).SetFloat64(v[0])), 0)
		}
	})
}

func TestRelation(t *testing.T) {
	require.NoError(t, Replace.Check())
	require.NoError(t, AddRemove.Check())
	require.ErrorIs(t, Relation(0).Check(), ErrRelation)
	require.Equal(t, "add-remove", AddRemove.String())
	require.Equal(t, "invalid relation 7", Relation(7).String())
}

// TestWith: a copy shares nothing with the certificate, and lists no assumption twice.
func TestWith(t *testing.T) {
	c := Certificate{Assumptions: make([]Assumption, 1, 8)}
	c.Assumptions[0] = "a"
	more := c.With("b", "a", "b")
	require.Equal(t, []Assumption{"a", "b"}, more.Assumptions)
	more.Assumptions[0] = "changed"
	require.Equal(t, []Assumption{"a"}, c.Assumptions)
	require.Equal(t, c, c.With())
}

// Certificates about persons say so, and do not mix with those about records.
func TestCertificateOfPersons(t *testing.T) {
	record := Certificate{Budget: Budget{Epsilon: 1}, Relation: Replace, Theorem: "test/1"}
	few, many := record, record
	few.Rows, many.Rows = 3, 20
	sum, err := Basic(few, many)
	require.NoError(t, err)
	require.Equal(t, 20, sum.Rows)
	require.Contains(t, sum.String(), "replace neighbors that differ in one person, of whom at most 20 lines count\n")
	require.NotContains(t, record.String(), "person")
	for _, mix := range [][]Certificate{{record, few}, {few, record}, {few, many, record}} {
		_, err := Basic(mix...)
		require.ErrorIs(t, err, ErrRelation)
		require.ErrorContains(t, err, "want one unit")
	}
	patients, visits := few, few
	patients.Person, visits.Person = "patient", "visit"
	for _, mix := range [][]Certificate{{patients, visits}, {patients, few}, {few, visits}} {
		_, err := Basic(mix...)
		require.ErrorIs(t, err, ErrRelation)
	}
	sum, err = Basic(patients, patients)
	require.NoError(t, err)
	require.Contains(t, sum.String(), `that differ in one person by the column "patient", of whom at most 3 lines count`)
	patients.Rows = 0
	require.ErrorContains(t, patients.Check(), `Person = "patient" with Rows = 0`)
	few.Rows = -1
	require.ErrorIs(t, few.Check(), ErrCondition)
	text, err := json.Marshal([]Certificate{record, many})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "rows"))
	var back []Certificate
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, []int{0, 20}, []int{back[0].Rows, back[1].Rows})
}
