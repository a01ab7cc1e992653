package qop

import (
	"math"

	"github.com/privopt/privopt/internal/specfun"
	"github.com/privopt/privopt/randmat"
)

// lawNodes is the number of evaluations of the exact law behind a table.
const lawNodes = 15

// table is log F, F the distribution function of λ_min(W_d(m)), on [lo, hi] as a
// polynomial in log x through Chebyshev nodes. log F is analytic there and
// nearly linear at its lower end, so that 15 nodes
// are exact to 4e-7, and to 1e-8 but for the ends.
type table struct {
	lo, hi float64
	coef   []float64
}

// newTable tabulates log F of W_d(m) around its quantile of log probability logp,
// guessed by guess: up to twice the quantile, and down to where F is negligible
// beside e^logp or no longer known exactly.
func newTable(d int, m, guess, logp float64) *table {
	law := randmat.MinEigenvalueLaw{Dim: d, Dof: m}
	logF := law.LogCDF
	if logp < exactLog+20 { // a proved bound, smooth all the way
		logF = func(x float64) float64 { return randmat.EdelmanLogCDF(d, m, x) }
	}
	k := m - float64(d) + 1
	q := guess
	if d < 12 || logp < -15 { // where the guess is poor
		q = quantile(logF, k, guess, logp)
	}
	depth := 36 / k // F falls at least like x^{k/2}: to 1e-8 of e^logp
	for logp >= exactLog+20 && depth > 0.1 && logF(q*math.Exp(-depth)) < exactLog {
		depth /= 2
	}
	t := &table{lo: q * math.Exp(-depth), hi: 2 * q}
	if d > 1 { // where log F levels off, a polynomial does not follow
		bulk, _ := specfun.Bisect(func(x float64) bool { return newRoughLaw(float64(d), m).logCDF(x) < specfun.Log(0.7) }, t.lo, t.hi)
		t.hi = math.Max(bulk, 1.05*q)
	}
	a, b := specfun.Log(t.lo), specfun.Log(t.hi)
	nodes := lawNodes
	if logp > -4 { // δ > 0.02: log F bends within the table
		nodes = 2 * lawNodes
	}
	n := float64(nodes)
	values := make([]float64, nodes)
	for i := range values {
		u := math.Cos(math.Pi * (float64(i) + 0.5) / n)
		values[i] = logF(math.Exp((a+b)/2 + (b-a)/2*u))
	}
	t.coef = make([]float64, nodes)
	for j := range t.coef {
		s := 0.0
		for i, v := range values {
			s += v * math.Cos(math.Pi*float64(j)*(float64(i)+0.5)/n)
		}
		t.coef[j] = 2 * s / n
	}
	t.coef[0] /= 2
	return t
}

// logCDF returns log F(x) for x in [lo, hi] by Clenshaw's recursion, with
// log F(lo) ≥ log F(x) below, and 0 above.
func (t *table) logCDF(x float64) float64 {
	switch {
	case x > t.hi:
		return 0
	case x < t.lo:
		x = t.lo
	}
	a, b := specfun.Log(t.lo), specfun.Log(t.hi)
	u := 2 * (2*specfun.Log(x) - a - b) / (b - a)
	var c1, c2 float64
	for j := len(t.coef) - 1; j > 0; j-- {
		c1, c2 = t.coef[j]+u*c1-c2, c1
	}
	return math.Min(t.coef[0]+u/2*c1-c2, 0)
}

// exactLog is the log probability down to which randmat knows F exactly, with
// room for where its bounds set in.
const exactLog = -75

// quantile returns x with log F(x) close to logp, by a few secant steps in
// log x. It only places a table, so that 1 % is enough.
func quantile(logF func(x float64) float64, k, guess, logp float64) float64 {
	u, last, flast := specfun.Log(guess), 0.0, math.NaN()
	slope := k / 2 // F ~ x^{k/2} at 0
	for range 40 {
		f := logF(math.Exp(u)) - logp
		if !math.IsNaN(flast) && u != last {
			if s := (f - flast) / (u - last); s > 0 && !math.IsInf(s, 1) {
				slope = s
			}
		}
		step := math.Max(-4, math.Min(4, -f/slope))
		last, flast = u, f
		u += step
		if math.Abs(step) < 0.05 {
			break
		}
	}
	return math.Exp(u)
}

// ends returns the interval outside of which logCDF only bounds log F.
func (t *table) ends() (lo, hi float64) { return t.lo, t.hi }

// minLaw is log F and where it is known.
type minLaw interface {
	logCDF(x float64) float64
	ends() (lo, hi float64)
}

// roughLaw approximates the law of λ_min(W_d(m)) in a microsecond. It chooses m;
// nothing private depends on it.
//
//	log λ_min ≈ ν − τ·TW
//
// for a variable TW of the Tracy–Widom law, which is nearly a shifted gamma
// variable, and whose upper tail is exp(−(2/3)s^{3/2})/(4√π s^{3/2}).
type roughLaw struct{ nu, tau float64 }

func newRoughLaw(d, m float64) roughLaw {
	a, b := math.Sqrt(m-0.5), math.Sqrt(d-0.5)
	tau := math.Cbrt(1/b-1/a) / (a - b)
	return roughLaw{2*specfun.Log(a-b) + tau*tau/8, tau}
}

func (r roughLaw) logCDF(x float64) float64 {
	s := (r.nu - specfun.Log(x)) / r.tau
	if s > 2 {
		return -2.0/3*math.Pow(s, 1.5) - specfun.Log(4*math.SqrtPi) - 1.5*specfun.Log(s)
	}
	if s < -9.8 {
		return 0
	}
	return specfun.GammaLogQ(46.446, (s+9.84801)/0.186054)
}

func (roughLaw) ends() (lo, hi float64) { return 0, math.Inf(1) }

// roughQuantile approximates the quantile of log probability logp of
// λ_min(W_d(m)), to choose m and to place tables.
func roughQuantile(d, m, logp float64) float64 {
	if d < 1.5 {
		return specfun.Chi2Quantile(logp, m)
	}
	r := newRoughLaw(d, m)
	s := 1.0
	for range 50 { // a fixed point of s^{3/2} = (3/2)(−logp − log(4√π s^{3/2}))
		s = math.Pow(math.Max(1.5*(-logp-specfun.Log(4*math.SqrtPi*math.Pow(math.Max(s, 0.3), 1.5))), 0.1), 2.0/3)
	}
	tracy := math.Exp(r.nu - r.tau*s)
	// Near 0, F(x) ≤ D·γ(k/2, x/2), sharp there.
	k := m - d + 1
	edelman := 2 * specfun.GammaInvLogP(k/2, math.Min(logp-logEdelman(d, m)-lgamma(k/2), -1e-9))
	return math.Max(tracy, edelman)
}

// logEdelman returns log D of the bound F(x) ≤ D·γ(k/2, x/2), γ the lower
// incomplete gamma function, k = m − d + 1:
//
//	log D = log d + log Γ(3/2) + log Γ((m+1)/2) − log Γ(d/2+1) − log Γ(k/2) − log Γ((k+1)/2)
func logEdelman(d, m float64) float64 {
	k := m - d + 1
	return specfun.Log(d) + lgamma(1.5) + lgamma((m+1)/2) - lgamma(d/2+1) - lgamma(k/2) - lgamma((k+1)/2)
}
