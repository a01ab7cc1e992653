// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package dptest tests mechanisms that add noise to a point, such as those that are built on
// package additive. A test needs one call of [Check].
package dptest

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/testkit"
)

// T is the part of testing.TB that Check needs, so that a test can watch Check fail.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// runs is the number of releases of each data set.
const runs = 1000

// stuck is a source of one word.
type stuck uint64

func (s stuck) Uint64() uint64 { return uint64(s) }

// Check tests a mechanism on two neighboring data sets. release(i, src) is one release of data set
// i, 0 or 1, with noise from src. points[i] is the point of that data set that noise is added to,
// before it is rounded. The release is to be this point with its noise, not what is computed from
// it later.
//
//   - The certificate is valid, is the same for both data sets and lists dp.CallerSource.
//   - Equal sources give equal releases, each coordinate changes with the source, and no release
//     holds a NaN.
//   - A source that repeats itself is an error that wraps dp.ErrSource.
//   - No attack on 2000 releases names their data sets more often than (ε, δ) allows. Attacks look
//     at sums of points and noise in float64 or float32 [Mir12], at each binary digit of each
//     coordinate, from the lowest one on, and at the side of a plane on which a release lies.
//     Check first attacks sums of float64 around the points, and fails if it would not notice
//     them: choose points with many digits, such as 0.1, or more coordinates.
//
// Passing proves no privacy. In particular, Check does not test a declared sensitivity.
//
//	[Mir12]  Mironov. On Significance of the Least Significant Bits for
//	         Differential Privacy. CCS 2012.
func Check(t T, points [2][]float64, release func(dataset int, src rand.Source) (*dp.Release, error)) {
	t.Helper()
	cert, ok := sound(t, points, release)
	if !ok {
		return
	}
	var own, sums [2][][]float64
	for i, c := range points {
		for seed := range uint64(runs) {
			rel, err := release(i, dp.Seeded(seed, "privopt/dptest"))
			if err != nil {
				t.Errorf("release %d of data set %d: %v", seed, i, err)
				return
			}
			if len(rel.Theta) != len(c) || slices.ContainsFunc(rel.Theta, math.IsNaN) {
				t.Errorf("data set %d: a release of %v, want %d numbers", i, rel.Theta, len(c))
				return
			}
			control := make([]float64, len(c)) // noise of float64 around the same point
			for j, r := range rel.Theta {
				control[j] = c[j] + (r - c[j])
			}
			own[i] = append(own[i], rel.Theta)
			sums[i] = append(sums[i], control)
		}
		for j := range c {
			if !slices.ContainsFunc(own[i], func(r []float64) bool { return r[j] != own[i][0][j] }) {
				t.Errorf("data set %d: coordinate %d is %v whatever the source, want noise on each coordinate", i, j, own[i][0][j])
				return
			}
		}
	}
	if a := sumOf(points, testkit.Sums, everywhere); !a.count(sums).exceeds(cert.Budget) {
		t.Errorf("the attack would not notice sums of floating-point noise (%v of %d named): want points with more digits, "+
			"more coordinates or less noise", a.count(sums).right, 2*runs)
	}
	for _, a := range attacks(points, own) {
		if n := a.count(own); n.exceeds(cert.Budget) {
			t.Errorf("%s of %v of %d releases name their data set and those of %v the other one, which %v does not allow: "+
				"add independent noise to each coordinate by package additive, not in float64", a.what, n.right, 2*runs, n.wrong,
				cert.Budget)
			return
		}
	}
}

// sound tests what holds of single releases.
func sound(
	t T, points [2][]float64, release func(int, rand.Source) (*dp.Release, error),
) (cert dp.Certificate, ok bool) {
	t.Helper()
	ok = true
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
		ok = false
	}
	if len(points[0]) == 0 || len(points[0]) != len(points[1]) || slices.Equal(points[0], points[1]) {
		fail("points of %d and %d coordinates, want two different points of one length", len(points[0]), len(points[1]))
		return cert, ok
	}
	for i := range points {
		var rel [3]*dp.Release
		for k, seed := range []uint64{1, 1, 2} {
			var err error
			if rel[k], err = release(i, dp.Seeded(seed)); err != nil || rel[k] == nil {
				fail("release of data set %d: %v, %v, want a release", i, rel[k], err)
				return cert, ok
			}
		}
		if !slices.Equal(rel[0].Theta, rel[1].Theta) {
			fail("equal sources give %v and %v, want one release", rel[0].Theta, rel[1].Theta)
		}
		if slices.Equal(rel[0].Theta, rel[2].Theta) {
			fail("different sources give %v, want noise", rel[0].Theta)
		}
		c := rel[0].Certificate
		if err := c.Check(); err != nil {
			fail("certificate: %v", err)
		}
		if !slices.Contains(c.Assumptions, dp.CallerSource) {
			fail("the certificate of a release from a given source does not list dp.CallerSource:\n%v", c)
		}
		if i == 1 && cert.String() != c.String() {
			fail("the data sets have the certificates\n%v\n%v\nwant one", cert, c)
		}
		cert = c
		for _, word := range []stuck{0, math.MaxUint64, 1 << 63} {
			if _, err := release(i, word); !errors.Is(err, dp.ErrSource) {
				fail("a source that repeats the word %#x: %v, want an error that wraps dp.ErrSource", uint64(word), err)
			}
		}
	}
	return cert, ok
}
