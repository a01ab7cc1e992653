package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/internal/testsize"
	"github.com/privopt/privopt/loss"
)

// chiLaw is the law of χ²_k in the place of that of λ_min.
type chiLaw float64

func (k chiLaw) logCDF(x float64) float64 { return specfun.Chi2LogCDF(x, float64(k)) }
func (k chiLaw) ends() (lo, hi float64) {
	return specfun.Chi2Quantile(-40, float64(k)), specfun.Chi2UpperQuantile(-25, float64(k))
}

// TestTiltExact: Theorem T for a χ² law against 40 digits, never below and at most 1.5 % above, in every row of
// its table; a fine grid comes closer, which a wrong formula could not.
func TestTiltExact(t *testing.T) {
	rows := map[string]side{"replace": replacing, "remove": removing, "add": adding}
	noMass := 0
	for _, c := range exact(t).Tilt {
		law := chiLaw(c.K)
		lo, hi := law.ends()
		p := &tilt{eps: float64(c.Eps), rho: c.Rho, n: float64(c.N)}
		for _, n := range []int{fineGrid, 40 * fineGrid} {
			p.x, p.f = nil, nil
			for i := range n {
				x := lo * math.Pow(hi/lo, float64(i)/float64(n-1))
				p.x, p.f = append(p.x, x), append(p.f, math.Exp(law.logCDF(x)))
			}
			x0 := float64(c.X0)
			got := math.Exp(p.at(rows[c.Row], float64(c.Lambda), tail{x0, math.Exp(law.logCDF(x0))}, float64(c.T)))
			require.GreaterOrEqual(t, got, float64(c.Delta), "%+v", c)
			require.LessOrEqual(t, got, float64(c.Delta)*(1+15/float64(n)), "%+v", c)
			e := math.Exp(p.average(rows[c.Row], float64(c.Lambda), float64(c.S), float64(c.T)) + float64(c.S))
			require.GreaterOrEqual(t, e, float64(c.E)*(1-1e-12))
			require.LessOrEqual(t, e, float64(c.E)*(1+15/float64(n)), "%+v", c)
		}
		if c.Mu == 0 {
			noMass++
		}
	}
	require.Equal(t, 2, noMass) // where M e^{−λε} ≥ 1, μ is 0
}

// TestTiltRefuses: where λ and x₀ are not admissible nothing is claimed, and just inside something finite is.
func TestTiltRefuses(t *testing.T) {
	p := &tilt{eps: 1, rho: 2, n: 20, x: []float64{1, 30, 60}, f: []float64{1e-9, 0.5, 1}}
	from := tail{10, 1e-3}
	for _, c := range []struct {
		row       side
		lambda, t float64
		ok        bool
	}{
		{replacing, 4.99, 1, true}, {replacing, 5.01, 1, false}, {removing, 9.9, 1, true}, {removing, 10.1, 1, false}, {adding, 9.9, 1, true},
		{adding, 10.1, 1, false},
		{replacing, 0.01, 6.1, true}, {replacing, 0.01, 6.3, false}, // y + y′ = 1 at y = 0.618
		{removing, 0.01, 10.1, false}, {adding, 0.01, 10.1, false},
	} {
		got := p.at(c.row, c.lambda, from, c.t)
		require.False(t, math.IsNaN(got))
		if !c.ok {
			require.Zero(t, got, "%+v", c)
		}
	}
	// Without any excess over ε the claim is F(x₀).
	require.InDelta(t, math.Log(1e-3), p.at(removing, 100, from, 1e-9), 1e-4)
	// A grid that ends below (1+λ)t says nothing of s̃: E = e^s.
	require.Zero(t, p.average(replacing, 80, 3, 1))
}

// TestTiltedLaw: two records have gradients in 2ρ dimensions, one in ρ.
func TestTiltedLaw(t *testing.T) {
	for _, c := range []struct {
		s   setting
		q   int
		dof float64
	}{
		{setting{dim: 10, rank: 3, structure: loss.FixedRange, relation: dp.Replace}, 6, 46},
		{setting{dim: 10, rank: 3, structure: loss.FixedRange, relation: dp.AddRemove}, 3, 43},
		{setting{dim: 10, rank: 8, structure: loss.FixedRange, relation: dp.Replace}, 10, 50},
		{setting{dim: 10, rank: 3, structure: loss.General, relation: dp.Replace}, 10, 50},
		{setting{dim: 10, rank: 3, structure: loss.General, relation: dp.AddRemove}, 10, 50},
	} {
		q, dof := c.s.tiltedLaw(50)
		require.Equal(t, c.q, q)
		require.Equal(t, c.dof, dof)
		require.Equal(t, 19.5, newTilt(c.s, 50, -5, newRoughRange(float64(q), dof, -5), true).n)
	}
}

// TestTiltGolden: the reference calibrations of Theorem T at their λ and x₀, and the t that is found here.
func TestTiltGolden(t *testing.T) {
	var g struct {
		Tilt []struct {
			Structure, Relation, Worst     string
			D                              int
			Rho, Eps, Delta, T, Lambda, X0 float64
			Curvature                      float64 `json:"sigma2m_over_L"`
			Averaged                       float64 `json:"delta_averaged"`
		}
	}
	load(t, "qop2.json", &g)
	require.Len(t, g.Tilt, 17)
	for _, c := range g.Tilt {
		if c.D > 3 && !testsize.Deep() {
			continue
		}
		m := math.Round(c.Curvature * c.T)
		s := setting{dim: c.D, rank: c.Rho, eps: c.Eps, relation: dp.Replace, structure: loss.General}
		row := replacing
		if c.Relation == "AddRemove" {
			s.relation, row = dp.AddRemove, adding
			require.Equal(t, "add", c.Worst)
		}
		if c.Structure == "FixedRange" {
			s.structure = loss.FixedRange
		}
		q, dof := s.tiltedLaw(m)
		law := newTable(q, dof, math.Log(c.Delta))
		p := newTilt(s, m, math.Log(c.Delta), law, false)
		delta := math.Exp(p.at(row, c.Lambda, tail{c.X0, math.Exp(law.logCDF(c.X0))}, c.T))
		require.GreaterOrEqual(t, delta, c.Averaged*(1-1e-4), "%+v", c)
		require.LessOrEqual(t, delta, c.Averaged*1.015, "%+v", c)
		found := largest(p.logDelta, math.Log(c.Delta)-safeLogDelta, c.T, fineT)
		require.InEpsilon(t, c.T, found, 3e-3, "%+v", c)
		require.LessOrEqual(t, p.logDelta(found), math.Log(c.Delta)+1e-3)
	}
}
