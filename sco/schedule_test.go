package sco

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// TestScheduleFormulas: variance, step and bound for every scheme, with and without an envelope.
func TestScheduleFormulas(t *testing.T) {
	const n, d, l, m, radius, steps, sigma = 500., 7., 0.1, 40., 3., 60., 0.01
	q := declaredSetting(t, n, d, 1, 1e-6, l, 0.25, radius)
	for _, scheme := range []Scheme{Poisson, FixedSize, WithReplacement} {
		for _, envelope := range []bool{false, true} {
			s := schedule{q: q, l: l, steps: steps, m: m, sigma: sigma, scheme: scheme, envelope: envelope}
			v := l*l + d*sigma*sigma + 2*l*l*steps/n
			most := 2. // ηβ
			if scheme == Poisson {
				v += (1 - m/n) * l * l / m
				most = 1
			}
			if envelope {
				v += l * l / most
			}
			require.InEpsilon(t, v, s.variance(), 1e-13)
			require.Equal(t, most, s.contraction())
			eta := radius / math.Sqrt(steps*v)
			require.InEpsilon(t, eta, s.step(most/eta*0.9), 1e-13)
			require.InEpsilon(t, eta, s.step(math.Inf(1)), 1e-13)
			require.InEpsilon(t, eta, s.step(0), 1e-13)
			require.InEpsilon(t, math.Min(eta, cond(envelope, eta, most/0.9)), s.step(0.9), 1e-13)
			if envelope {
				require.InEpsilon(t, eta, s.step(100), 1e-13)
			} else {
				require.InEpsilon(t, most/100, s.step(100), 1e-13)
			}
			for _, ratio := range []float64{0.3, 0.95, most, most * (1 + 5e-13)} {
				beta := ratio / eta
				want := radius*radius/(2*eta*steps) + eta*v/2
				if envelope { // L²/(2β) in the place of the part of V
					want += l*l/(2*beta) - eta*l*l/most/2
				}
				if scheme == Poisson {
					r := 2 / ratio
					want += 2 * l * radius * steps * math.Exp(-m*(r*math.Log(r)-r+1))
				}
				want += 0x1p-25 * l * (radius + 3*l*eta*steps + eta*math.Sqrt(steps*v))
				require.InEpsilon(t, want, s.bound(eta, beta), 1e-12)
			}
			require.True(t, math.IsInf(s.bound(eta, most/eta*(1+3e-12)), 1))
			require.True(t, math.IsInf(s.bound(eta, 0), 1))
			require.True(t, math.IsInf(s.bound(eta, math.NaN()), 1))
			// One record a batch: the Chernoff bound counts for no more than 1.
			if scheme == Poisson && !envelope {
				s.m = 1
				rounding := func() float64 { return 0x1p-25 * l * (radius + 3*l*eta*steps + eta*math.Sqrt(steps*s.variance())) }
				want := radius*radius/(2*eta*steps) + eta*s.variance()/2 + 2*l*radius + rounding()
				require.InEpsilon(t, want, s.bound(eta, 1/eta), 1e-12)
				s.m = n // no batch is larger
				require.InEpsilon(t, radius*radius/(2*eta*steps)+eta*(l*l+d*sigma*sigma+2*l*l*steps/n)/2+rounding(), s.bound(eta, 1/eta), 1e-12)
				s.m = 2 * n
				require.InEpsilon(t, l*l+d*sigma*sigma+2*l*l*steps/n, s.variance(), 1e-12)
			}
		}
	}
}

func cond(ok bool, a, b float64) float64 {
	if ok {
		return a
	}
	return b
}

// declaredSetting is declared, checked.
func declaredSetting(t *testing.T, n, d int, eps, delta, l, beta, m float64) setting {
	t.Helper()
	q, b := declared(n, d, eps, delta, l, beta, m)
	s, err := newSetting(q, dp.Replace, b, 0)
	require.NoError(t, err)
	return s
}
