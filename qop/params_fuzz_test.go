package qop_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/qop"
)

// FuzzParams: whatever is declared, Calibrate, the published constants and the
// bound of the figure return an error of a documented kind or finite numbers
// that keep the budget. Sizes are kept small, or too large to be computed with.
func FuzzParams(f *testing.F) {
	bad := []float64{0, -1, math.NaN(), math.Inf(1), 1e-320, 0x1p-51, 1e6, 1e-9, 1e-300, 1e308}
	for i, v := range bad {
		f.Add(1.0, 1e-6, v, 1.0, 0.0, 0.0, 2, uint16(i))
		f.Add(v, 1e-6, 1.0, 1.0, 0.0, 0.0, 3, uint16(i*37+1))
		f.Add(1.0, v, 1.0, 1.0, 0.0, 0.0, 3, uint16(i*91+2))
		f.Add(0.5, 0.01, 1.0, v, 0.0, 0.0, 2, uint16(i*113+1))
		f.Add(0.5, 0.01, 1.0, 1.0, v, 0.0, 2, uint16(i*211+4))
		f.Add(0.5, 0.01, 1.0, 1.0, 0.0, v, 2, uint16(i*301+2))
	}
	documented := func(err error) bool {
		return errors.Is(err, qop.ErrMechanism) || errors.Is(err, dp.ErrBudget) || errors.Is(err, dp.ErrCondition) || errors.Is(err, dp.ErrRelation)
	}
	f.Fuzz(func(t *testing.T, eps, delta, smoothness, radius, eta, degrees float64, dim int, bits uint16) {
		structure := loss.Structure(bits % 6)
		if dim > 20 && dim < 1e8 || structure >= loss.FixedRange && dim > 3 || degrees > 100 && degrees < 1e9 {
			return
		}
		q := qop.Public{
			Dim: dim, Records: int(bits>>9) * 10, Radius: radius, Scale: float64(bits >> 6 % 3), Budget: dp.Budget{Epsilon: eps, Delta: delta},
			Constants: loss.Constants{Smoothness: smoothness, Rank: int(bits>>6) % 5, Structure: structure},
		}
		if eta > 0 && bits&1 == 0 { // the search for a split takes a hundred times as long
			eta = 0
		}
		m := &qop.Mechanism{
			Relation: dp.Relation(bits >> 3 % 4), Calibration: qop.Calibration(bits >> 5 % 4), Eta: eta, M: degrees,
			Share: float64(bits>>10%4) / 4,
		}
		p, err := m.Calibrate(q)
		if err != nil {
			require.Nil(t, p)
			require.True(t, documented(err), "%v", err)
		} else {
			for name, v := range map[string]float64{"M": p.M, "T": p.T, "Sigma2": p.Sigma2, "Curvature": p.Curvature, "Cover": p.Cover, "Reach": p.Reach, "OutputSigma": p.OutputSigma} {
				require.True(t, v > 0 && !math.IsInf(v, 1), "%s = %v in %+v", name, v, p)
			}
			require.GreaterOrEqual(t, p.M, float64(dim)+1)
			require.False(t, math.IsNaN(p.ExcessBound) || p.ExcessBound < 0, "%v", p.ExcessBound)
			require.LessOrEqual(t, p.Objective.Epsilon+p.Output.Epsilon, eps)
			require.LessOrEqual(t, p.Objective.Delta+p.Output.Delta+p.Low+p.High, delta)
		}
		c, err := qop.Published{Dim: dim, M: degrees, Rank: int(bits % 4), Smoothness: smoothness, Epsilon1: eps, Epsilon2: eps, Delta1: delta, Delta2: delta, Delta3: delta, Delta4: delta, Tau: radius, Eta: eta}.Constants(bits&1 == 0)
		if err != nil {
			require.True(t, documented(err), "%v", err)
		} else {
			require.False(t, math.IsNaN(c.Alpha+c.F2+c.Sigma2+c.Alpha1+c.OutputSigma), "%+v", c)
		}
	})
}
