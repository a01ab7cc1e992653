package audit

import (
	"math"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/combin"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/sco"
)

// batches is a law of batches that a claim is about: of n records m in
// expectation, n the public number.
type batches struct {
	scheme sco.Scheme
	m, n   int
	rel    dp.Relation
}

// rate returns q = m/n.
func (s batches) rate() float64 { return float64(s.m) / float64(s.n) }

// binomial returns P(Bin(n, p) = k), k ≥ 0.
func binomial(n, k int, p float64) float64 {
	if k > n {
		return 0
	}
	return float64(combin.Binomial(n, k)) * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
}

// placed returns a standard score of k under a law on the integers from 0, drawn uniformly in the
// gap of its distribution function; NaN where the law has no mass.
func placed(k int, law func(k int) float64, src rand.Source) float64 {
	below := 0.0
	for j := range k {
		below += law(j)
	}
	at := law(k)
	if !(at > 0) {
		return math.NaN()
	}
	above := math.Max(0, 1-below-at)
	u := uniform(src)
	return Normal(below+u*at, above+(1-u)*at)
}

// scores returns 1 + records scores of a batch, its size and how often each
// record is in it, given what came before:
//
//	Poisson            size ~ Bin(records, q), then each of the rest equally likely
//	FixedSize          size m, then the same
//	WithReplacement    size m, then counts ~ Bin(rest of the batch, 1/(rest of the records))
func (s batches) scores(batch []int, records int, src rand.Source) []float64 {
	counts := make([]int, records)
	for _, i := range batch {
		counts[i]++
	}
	left := len(batch)
	z := []float64{placed(left, func(k int) float64 {
		switch {
		case s.scheme == sco.Poisson:
			return binomial(records, k, s.rate())
		case k == s.m:
			return 1
		}
		return 0
	}, src)}
	for i, k := range counts {
		rest := records - i
		z = append(z, placed(k, func(k int) float64 {
			if s.scheme == sco.WithReplacement {
				return binomial(left, k, 1/float64(rest))
			}
			return binomial(1, k, math.Min(1, float64(left)/float64(rest)))
		}, src))
		left -= k
	}
	return z
}

// sticks returns the divergences of one step with noise z on the sum, over L, at
// any ε and in both orders: for ε ≥ 0 and t = log(1+(e^ε−1)/q)
//
//	Poisson, replace            q((1−v)δ(t, 1/z) + vδ(t, 2/z)),  v = e^{ε−t}
//	Poisson, add/remove         (1−q)N(0,z²) + qN(1,z²) against N(0,z²): qδ(t, 1/z)
//	                            where e^ε > 1−q, else 1−e^ε
//	FixedSize                   qδ(t, 2/z)
//	WithReplacement             Σ_k P(Bin(m,1/n) = k) δ(t, 2k/z),  q = 1−(1−1/n)^m
//	all records                 δ(ε, 2/z), or δ(ε, 1/z) for add/remove
//
// with δ(ε, s) of normalStick.
func (s batches) sticks(z float64) (up, down func(eps float64) float64) {
	q := s.rate()
	inner := func(eps, q float64) float64 { return math.Log1p(math.Expm1(eps) / q) }
	var h func(eps float64) float64
	switch {
	case s.scheme == sco.WithReplacement:
		g := 1 - math.Pow(1-1/float64(s.n), float64(s.m))
		h = func(eps float64) float64 {
			sum := 0.0
			for k := 1; k <= s.m; k++ {
				sum += binomial(s.m, k, 1/float64(s.n)) * normalStick(inner(eps, g), 2*float64(k)/z)
			}
			return sum
		}
	case q == 1:
		h = func(eps float64) float64 { return normalStick(eps, sensitivity(s.rel, 1)/z) }
		return h, h
	case s.scheme == sco.FixedSize:
		h = func(eps float64) float64 { return q * normalStick(inner(eps, q), 2/z) }
	case s.rel == dp.AddRemove:
		up = func(eps float64) float64 {
			if math.Exp(eps) <= 1-q {
				return -math.Expm1(eps)
			}
			return q * normalStick(inner(eps, q), 1/z)
		}
		return up, func(eps float64) float64 { return -math.Expm1(eps) + math.Exp(eps)*up(-eps) }
	default:
		h = func(eps float64) float64 {
			t := inner(eps, q)
			v := math.Exp(eps - t)
			return q * ((1-v)*normalStick(t, 1/z) + v*normalStick(t, 2/z))
		}
	}
	both := func(eps float64) float64 {
		if eps >= 0 {
			return h(eps)
		}
		return -math.Expm1(eps) + math.Exp(eps)*h(-eps)
	}
	return both, both
}

// noise returns z for T steps at the budget. Several cases ask for the same one.
func (s batches) noise(b dp.Budget, steps int) float64 {
	type key struct {
		s     batches
		b     dp.Budget
		steps int
	}
	once, _ := batchNoises.LoadOrStore(key{s, b, steps}, sync.OnceValue(func() float64 {
		asymmetric := s.rel == dp.AddRemove && s.m < s.n
		return 1 / largestUnder(b.Delta, func(x float64) float64 {
			up, down := s.sticks(1 / x)
			d := composed(up, steps)(b.Epsilon)
			if asymmetric {
				d = math.Max(d, composed(down, steps)(b.Epsilon))
			}
			return d
		})
	}))
	return once.(func() float64)()
}

var batchNoises sync.Map

// composed returns the divergence of T independent steps, each with divergence h. The loss of a
// step has P(loss > x) = h(x) − h′(x); its law is put on a grid, an atom at 0 on a point of it, and
//
//	δ_T(ε) = Σ_x P(loss of T−1 steps = x) h(ε − x)
//
// A grid of 1/128 moves δ by a few 1e-5 of it, and h between the points of a grid
// of 1/512 by as little: the losses here are spread over tenths and more. What
// lies beyond ±8 counts as a loss of +∞.
func composed(h func(eps float64) float64, steps int) func(eps float64) float64 {
	if steps == 1 {
		return h
	}
	const grid, fine, reach = 1.0 / 128, 512, 8
	tail := func(x float64) float64 {
		const dx = 1e-5
		return h(x) - (h(x+dx)-h(x-dx))/(2*dx)
	}
	mass, sum := make([]float64, 2*reach*128+1), 0.0
	origin := len(mass) / 2
	before := tail(-(float64(origin) + 0.5) * grid)
	for i := range mass {
		after := tail((float64(i-origin) + 0.5) * grid)
		if mass[i] = before - after; !(mass[i] > 1e-14) {
			mass[i] = 0
		}
		sum += mass[i]
		before = after
	}
	all, center := mass, origin
	for range steps - 2 {
		next := make([]float64, len(all)+len(mass)-1)
		for i, p := range all {
			if p > 0 {
				for j, q := range mass {
					next[i+j] += p * q
				}
			}
		}
		all, center = next, center+origin
	}
	table := make([]float64, 2*reach*fine+1)
	for i := range table {
		table[i] = h(float64(i)/fine - reach)
	}
	between := func(x float64) float64 {
		at, part := math.Modf((x + reach) * fine)
		if i := int(at); i >= 0 && i+1 < len(table) {
			return table[i] + part*(table[i+1]-table[i])
		}
		return h(x)
	}
	lost := math.Max(0, 1-math.Pow(sum, float64(steps-1)))
	return func(eps float64) float64 {
		d := lost
		for i, p := range all {
			if p > 1e-13 {
				d += p * between(eps-float64(i-center)*grid)
			}
		}
		return d
	}
}

// mixture is Σ_k weight_k N(mean_k, z²).
type mixture struct {
	weight, mean []float64
	z            float64
}

// logDensity returns log p(y) + log z√(2π).
func (m mixture) logDensity(y float64) float64 {
	terms := make([]float64, len(m.weight))
	for k, w := range m.weight {
		u := (y - m.mean[k]) / m.z
		terms[k] = math.Log(w) - u*u/2
	}
	return floats.LogSumExp(terms)
}

// above returns P(Y > y).
func (m mixture) above(y float64) float64 {
	p := 0.0
	for k, w := range m.weight {
		p += w * num.NormalCDF((m.mean[k]-y)/m.z)
	}
	return p
}

// sticks returns the divergences of m from q and of q from m, for mixtures whose
// log ratio increases with y: the best event is a side of a threshold.
func (m mixture) sticks(q mixture) (up, down func(eps float64) float64) {
	loss := func(y float64) float64 { return m.logDensity(y) - q.logDensity(y) }
	threshold := func(eps float64) float64 {
		_, y := num.Bisect(func(y float64) bool { return loss(y) <= eps }, -60*m.z, 60*m.z)
		return y
	}
	up = func(eps float64) float64 {
		y := threshold(eps)
		return m.above(y) - math.Exp(eps)*q.above(y)
	}
	down = func(eps float64) float64 {
		y := threshold(-eps)
		return (1 - q.above(y)) - math.Exp(eps)*(1-m.above(y))
	}
	return up, down
}
