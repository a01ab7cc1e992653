// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/prox"
)

// Kinds of preconditioning, see Sequence.Map.
const (
	fullMap     = "full"     // by the eigenvectors of the Gram matrix
	diagonalMap = "diagonal" // by its diagonal, which keeps coordinates apart
)

// Numbers of preconditioning, fixed on public data.
const (
	gramShare   = 0.10    // Σaa′
	normShare   = 0.005   // histogram of the norms of mapped rows
	mapFloor    = 0.7     // least eigenvalue, over the norm of the noise
	mapEdge     = 2       // used up to this norm of the noise, over X²n/d
	mapLevel    = 0.995   // share of the mapped rows that keep their weight
	leastLevel  = 0.8     // not used if the noise of the histogram would lower the share below
	mostEntries = 1 << 27 // numbers of the mapped rows, which are dense
)

// A mapping is a change of coordinates θ = V diag(u) θ′, chosen from released sums. A record
// becomes
//
//	(a, b) ↦ √ω (diag(u)V′a, b),  √ω = min(1, X/‖diag(u)V′a‖)
//
// so that ‖a‖ ≤ X still holds. Squares of the new record are ω times those of the old one: no other
// record enters.
type mapping struct {
	basis *mat.Dense // V, nil for the identity
	units []float64  // u > 0
}

// mapKind returns the kind of map that penalty and set allow, "" for none. Without a penalty and a
// set, or with a ridge, any map does. A lasso, a box and θ ≥ 0 keep their form in a diagonal map;
// groups, balls and simplices do not keep theirs. Intervals are for rows as they are.
func (o Options) mapKind() string {
	switch {
	case o.Intervals != nil || o.Penalty.Group > 0 || o.Set.Name == Ball || o.Set.Name == Simplex:
		return ""
	case o.Penalty.Lasso > 0 || o.Set.Name != "":
		return diagonalMap
	}
	return fullMap
}

// edge returns the norm that the noise in the Gram matrix is expected to have, in units of X²: for
// the full map τ√(2d), the end of the semicircle; on the diagonal τ√(2 log 2d).
func (pl *Plan) edge(s Sequence) float64 {
	d := float64(pl.params.Dim)
	sensitivity, _ := sumSensitivity(1, pl.pair(), pl.params.Dim)
	tau := sensitivity / (math.Sqrt(gramShare) * s.Mu)
	if s.Map == diagonalMap {
		return tau * math.Sqrt(2*math.Log(2*d))
	}
	return tau * math.Sqrt(2*d)
}

// withMap returns the sequence with the shares of preconditioning.
func (s Sequence) withMap(kind string) Sequence {
	s.Map = kind
	s.Shares.Gram, s.Shares.Norms = gramShare, normShare
	s.Shares.Last -= gramShare + normShare
	return s
}

// precondition releases the Gram matrix and the histogram of norms, and returns the map.
func (pl *Plan) precondition(ctx context.Context, p *erm.Problem, direct rand.Source) (*mapping, error) {
	s, d := *pl.params.Sequence, pl.params.Dim
	x := pl.params.Bounds.Row
	sensitivity, exponent := sumSensitivity(x*x, pl.pair(), d)
	sum := make([]int64, d*(d+1)/2)
	weight := math.Ldexp(1, -exponent)
	if err := p.Data.Each(func(a []float64, _ float64) { addOuter(sum, a, weight) }); err != nil {
		return nil, err
	}
	gram := releaseSum(fault.From(ctx), sum, d, sensitivity/pl.shift(s.Shares.Gram)*release.SafeScale, exponent, direct)
	m := newMapping(s.Map, gram, mapFloor*pl.edge(s)*x*x)
	tau := pl.pair() / pl.shift(s.Shares.Norms) * release.SafeScale
	n := float64(pl.params.Records)
	norms, err := pl.norms(ctx, p.Data, m, tau, direct)
	if err != nil {
		return nil, err
	}
	floats.Scale(x/pl.radius(norms, pl.level(s, n)), m.units)
	return m, nil
}

// level returns the share of the rows that are to keep their weight: 0.995, or 4 standard
// deviations of a bin away from 1.
func (pl *Plan) level(s Sequence, n float64) float64 {
	return min(mapLevel, 1-4*pl.pair()/(math.Sqrt(s.Shares.Norms)*s.Mu)/n)
}

// newMapping returns the map of the noisy Gram matrix with eigenvalues, or diagonal entries, of at
// least floor: u = max(λ, floor)^(−1/2).
func newMapping(kind string, gram *mat.SymDense, floor float64) *mapping {
	d := gram.SymmetricDim()
	m := &mapping{units: make([]float64, d)}
	values := make([]float64, d)
	var eig mat.EigenSym
	if kind == fullMap && eig.Factorize(gram, true) {
		m.basis = new(mat.Dense)
		eig.VectorsTo(m.basis)
		eig.Values(values)
	} else {
		for j := range d {
			values[j] = gram.At(j, j)
		}
	}
	for j, v := range values {
		m.units[j] = 1 / math.Sqrt(max(v, floor))
	}
	return m
}

// normEdges returns the edges of the histogram of norms: a grid around √(d/n₀), the root mean
// square for rows whose Gram matrix has no eigenvalue below the floor.
func (pl *Plan) normEdges() []float64 {
	base := math.Sqrt(float64(pl.params.Dim) / float64(pl.params.Records))
	out := make([]float64, 21)
	for k := range out {
		out[k] = base * math.Exp2(float64(k-10)/4)
	}
	return out
}

// norms releases the histogram of ‖diag(u)V′a‖ over the edges, the last bin for all above.
func (pl *Plan) norms(
	ctx context.Context, data *erm.Data, m *mapping, tau float64, src rand.Source,
) (histogram, error) {
	row := make([]float64, pl.params.Dim)
	return countBins(ctx, data, pl.normEdges(), tau, src, func(a []float64, _ float64) float64 {
		m.row(row, a)
		return floats.Norm(row, 2)
	})
}

// radius returns R: the first edge below which the share q of the rows lies.
func (pl *Plan) radius(norms histogram, q float64) float64 {
	at := pl.normEdges()
	n := float64(pl.params.Records)
	for k, share := range norms.cdf(n, 0.2*n) {
		if share >= q {
			return at[k]
		}
	}
	return at[len(at)-1]
}

// improve adds preconditioning to the sequence, if the noise of a Gram matrix, which public numbers
// determine, recommends it.
func (pl *Plan) improve(s *Sequence, o Options, n, d float64) error {
	if o.Loss.Name != Squares {
		return nil
	}
	kind := o.mapKind()
	m := s.withMap(kind)
	if kind == "" || d > mostDim || n*d > mostEntries || m.Shares.Last <= 0 {
		return nil
	}
	err := pl.curvatureCost(&m, n, d)
	if err != nil {
		return err
	}
	if m.Mu, err = pl.mu(m, 0); err != nil {
		return err
	}
	if pl.edge(m) > mapEdge*n/d || pl.level(m, n) < leastLevel {
		return nil
	}
	*s, pl.modulus = m, 0 // the modulus of a mapped ridge is not that of the ridge
	pl.params.Decision += " Before, a noisy Gram matrix of the rows chooses coordinates in which the rows have " +
		"a similar spread in all directions; the longest 0.5 % of the mapped rows get less weight."
	return nil
}

// restore takes the release back to the units of encoded rows.
func (m *mapping) restore(out *outcome, user *erm.Problem) {
	out.theta = m.theta(out.theta)
	if user.Set != nil { // rounding may have left it
		user.Set.Prox(out.theta, out.theta, 1)
	}
	out.units = m.units
}

// row stores diag(u)V′a in dst.
func (m *mapping) row(dst, a []float64) {
	if m.basis == nil {
		floats.MulTo(dst, a, m.units)
		return
	}
	clear(dst)
	for i, v := range a {
		if v != 0 {
			floats.AddScaled(dst, v, m.basis.RawRowView(i))
		}
	}
	floats.Mul(dst, m.units)
}

// theta returns V diag(u) θ′, the point in the units of encoded rows.
func (m *mapping) theta(x []float64) []float64 {
	out := make([]float64, len(x))
	floats.MulTo(out, x, m.units)
	if m.basis == nil {
		return out
	}
	var y mat.VecDense
	y.MulVec(m.basis, mat.NewVecDense(len(out), out))
	return y.RawVector().Data
}

// problem returns the problem in the mapped coordinates. MapRows forces the rows into the bounds
// after all arithmetic, so that ‖a‖ ≤ X holds in float64.
func (m *mapping) problem(p *erm.Problem, o Penalty, set Set, most float64) (*erm.Problem, error) {
	q := *p
	var err error
	if q.Reg, err = m.penalty(o, most); err != nil {
		return nil, err
	}
	if q.Set, err = m.set(set); err != nil {
		return nil, err
	}
	x, d := p.Data.Bounds().Row, len(m.units)
	pool := sync.Pool{New: func() any { return new(make([]float64, d)) }}
	q.Data = p.Data.MapRows(func(a []float64, b float64) float64 {
		row := pool.Get().(*[]float64)
		m.row(*row, a)
		copy(a, *row)
		pool.Put(row)
		return b * shrink(a, x)
	})
	return &q, nil
}

// shrink scales a to the norm x if it is longer, and returns the factor √ω.
func shrink(a []float64, x float64) float64 {
	norm := floats.Norm(a, 2)
	if !(norm > x) {
		return 1
	}
	floats.Scale(x/norm, a)
	return x / norm
}

// penalty returns the penalty of the sum over n records in mapped coordinates.
func (m *mapping) penalty(o Penalty, n float64) (prox.Operator, error) {
	if o == (Penalty{}) {
		return nil, nil
	}
	return m.blocks(func(u float64) (prox.Operator, error) {
		return Penalty{Ridge: o.Ridge * u * u, Lasso: o.Lasso * u}.operator(n, nil)
	})
}

// blocks returns the operator with a part of its own for every unit.
func (m *mapping) blocks(part func(u float64) (prox.Operator, error)) (prox.Operator, error) {
	parts := make([]prox.Block, len(m.units))
	for j, u := range m.units {
		op, err := part(u)
		if err != nil {
			return nil, err
		}
		parts[j] = prox.Block{Op: op, Len: 1}
	}
	return prox.Blocks(parts...), nil
}

// set returns the set in the coordinates of a diagonal map.
func (m *mapping) set(s Set) (prox.Set, error) {
	if s.Name != Box {
		return s.set()
	}
	op, err := m.blocks(func(u float64) (prox.Operator, error) { return Set{Name: Box, Size: s.size() / u}.set() })
	set, _ := op.(prox.Set)
	return set, err
}

// ends returns maps with the least and the largest units that a fit may choose but for the noise of
// improbable events, for checks before the budget is spent.
func (pl *Plan) ends() []*mapping {
	s, d := *pl.params.Sequence, pl.params.Dim
	x := pl.params.Bounds.Row
	edge, at := pl.edge(s)*x*x, pl.normEdges()
	var out []*mapping
	for _, u := range []float64{
		x / (math.Sqrt(float64(pl.params.MaxRecords)*x*x+10*edge) * at[len(at)-1]), x / (math.Sqrt(mapFloor*edge) * at[0]),
	} {
		m := &mapping{units: make([]float64, d)}
		floats.AddConst(u, m.units)
		out = append(out, m)
	}
	return out
}
