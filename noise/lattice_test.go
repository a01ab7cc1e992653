package noise_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/noise"
)

// step holds the 128 lattice constants of math/rand/v2's NormFloat64: below its
// tail a draw is an int32 times one of them. Recomputed from the ziggurat of
// [MT00a] with 128 layers in single precision; naiveIsOnLattice confirms them.
var step = func() (w [128]float64) {
	const r, v = 3.442619855899, 9.91256303526217e-3
	x := r
	w[0] = float64(float32(v / math.Exp(-x*x/2) / (1 << 31)))
	w[127] = float64(float32(x / (1 << 31)))
	for i := 126; i > 0; i-- {
		x = math.Sqrt(-2 * math.Log(v/x+math.Exp(-x*x/2)))
		w[i] = float64(float32(x / (1 << 31)))
	}
	return w
}()

// onLattice reports whether z is a value of the naive generator up to tol.
func onLattice(z, tol float64) bool {
	for _, w := range step {
		j := math.RoundToEven(z / w)
		if math.Abs(j) <= 1<<31 && math.Abs(z-j*w) <= tol {
			return true
		}
	}
	return false
}

// TestDrawsOnLattice: of 20000 draws below the tail, all of the naive ones and
// at most one of ours is an exact value of the naive generator. A float64 near
// 1 is such a value with probability below 128·2³¹/2⁵² = 2⁻¹⁴ a layer, less
// above and more below; below 2⁻²⁰ every float64 with few bits is.
func TestDrawsOnLattice(t *testing.T) {
	const n = 20_000
	naive := rand.New(rand.NewChaCha8([32]byte{1}))
	ours := normals(n, 1, "lattice")
	var hitsNaive, hitsOurs, tested int
	for i := range n {
		if x := naive.NormFloat64(); math.Abs(x) < 3.44 {
			tested++
			if onLattice(x, 0) {
				hitsNaive++
			}
		}
		if onLattice(ours[i], 0) {
			hitsOurs++
		}
	}
	require.Equal(t, tested, hitsNaive)
	// Σ over layers 2³² wᵢ-lattice points × density: mean below 20000·2⁻¹³ = 2.4;
	// P(Poisson(2.4) > 16) < 1e-6 bounds the false rejects.
	require.LessOrEqual(t, hitsOurs, 16)
}

// release solves min Σᵢ log(1 + exp(-yᵢ aᵢ'θ)) + (λ/2)‖θ‖² + b'θ by Newton's
// method to rounding error.
func release(a *mat.Dense, y, b []float64, lambda float64) []float64 {
	n, d := a.Dims()
	theta := make([]float64, d)
	g := make([]float64, d)
	h := mat.NewSymDense(d, nil)
	var chol mat.Cholesky
	var delta mat.VecDense
	for range 12 {
		implied(g, a, y, theta, lambda)
		for j := range g {
			g[j] = b[j] - g[j]
		}
		h.Zero()
		for i := range n {
			row := a.RawRowView(i)
			p := 1 / (1 + math.Exp(-dot(row, theta)))
			h.SymRankOne(h, p*(1-p), mat.NewVecDense(d, row))
		}
		for j := range d {
			h.SetSym(j, j, h.At(j, j)+lambda)
		}
		chol.Factorize(h)
		if chol.SolveVecTo(&delta, mat.NewVecDense(d, g)) != nil {
			panic("singular Hessian")
		}
		for j := range theta {
			theta[j] -= delta.AtVec(j)
		}
	}
	return theta
}

// implied returns b = -∇F(θ), the noise that a candidate data set implies.
func implied(dst []float64, a *mat.Dense, y, theta []float64, lambda float64) {
	n, _ := a.Dims()
	for j := range dst {
		dst[j] = -lambda * theta[j]
	}
	for i := range n {
		row := a.RawRowView(i)
		c := y[i] / (1 + math.Exp(y[i]*dot(row, theta)))
		for j, v := range row {
			dst[j] += c * v
		}
	}
}

func dot(a, b []float64) (s float64) {
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

// attack runs the experiment that broke naive samplers: logistic regression,
// n = 200 unit rows, d = 10, λ = 5, σ = 20, neighbors that differ in one label.
// The attacker sees θ and decides for the data set whose implied noise lies on
// the naive lattice in every coordinate; it abstains if both or neither do.
func attack(releases int, normal func(dst []float64, sigma float64)) (right, wrong, abstain int) {
	const n, d, lambda, sigma = 200, 10, 5, 20
	src := noise.Reproducible(31, "attack")
	a := mat.NewDense(n, d, nil)
	y := make([]float64, n)
	for i := range y {
		noise.Sphere(a.RawRowView(i), src)
		y[i] = math.Copysign(1, noise.Uniform(src)-0.5)
	}
	b, z := make([]float64, d), make([]float64, d)
	fits := func(theta []float64) bool {
		implied(z, a, y, theta, lambda)
		for _, v := range z {
			// Beyond 3.44 σ the naive generator's values are not a lattice.
			if math.Abs(v/sigma) < 3.44 && !onLattice(v/sigma, 4e-14) {
				return false
			}
		}
		return true
	}
	for range releases {
		truth := noise.Uniform(src) < 0.5
		if truth {
			y[0] = -y[0]
		}
		normal(b, sigma)
		theta := release(a, y, b, lambda)
		hit := fits(theta)
		y[0] = -y[0]
		other := fits(theta)
		switch {
		case hit && !other:
			right++
		case other && !hit:
			wrong++
		default:
			abstain++
		}
	}
	return right, wrong, abstain
}

// TestLatticeAttack: the released minimizer names the data set if the noise is
// NormFloat64, and says nothing to this attack if it is ours.
func TestLatticeAttack(t *testing.T) {
	releases := 400
	if testing.Short() {
		releases = 100
	}
	naive := rand.New(rand.NewChaCha8([32]byte{2}))
	right, wrong, _ := attack(releases, func(dst []float64, sigma float64) {
		for i := range dst {
			dst[i] = sigma * naive.NormFloat64()
		}
	})
	require.GreaterOrEqual(t, right, releases*39/40, "the attack must succeed against the naive sampler")
	require.Zero(t, wrong)

	src := noise.Reproducible(32, "attack")
	right, wrong, abstain := attack(releases, func(dst []float64, sigma float64) { noise.Normal(dst, sigma, src) })
	// Ten random coordinates pass by chance with probability below 0.05¹⁰ each time.
	require.Equal(t, [3]int{0, 0, releases}, [3]int{right, wrong, abstain})
}

// TestDistinctValues: among n draws equal magnitudes are as rare as for real
// numbers rounded to float64, n²/2·E[P(x)] < 1e-3, while the naive sampler
// repeats values, n²/2·2⁻³⁹ = 14.6 expected (P(none) < 1e-6).
func TestDistinctValues(t *testing.T) {
	if testing.Short() {
		t.Skip("sorts 8 million values")
	}
	const n = 4_000_000
	repeats := func(x []float64) (r int) {
		for i, v := range x {
			x[i] = math.Abs(v)
		}
		slices.Sort(x)
		for i := 1; i < n; i++ {
			if x[i] == x[i-1] {
				r++
			}
		}
		return r
	}
	require.Zero(t, repeats(normals(n, 20, "distinct")))
	naive := rand.New(rand.NewChaCha8([32]byte{3}))
	x := make([]float64, n)
	for i := range x {
		x[i] = 20 * naive.NormFloat64()
	}
	require.Positive(t, repeats(x))
}

// TestLowBits: the lowest eight significand bits of a draw are uniform in every
// binade, whatever the scale and the layer: a sampler that multiplies a 53-bit
// uniform by a 53-bit constant leaves holes that show here.
func TestLowBits(t *testing.T) {
	n := 2_000_000
	if testing.Short() {
		n = 400_000
	}
	type binade map[int]*[256]float64
	test := func(name string, draw func(rand.Source) float64) {
		src := noise.Reproducible(33, "lowbits", name)
		counts := binade{}
		for range n {
			bits := math.Float64bits(draw(src))
			e := int(bits>>52&0x7ff) - 1023
			if counts[e] == nil {
				counts[e] = new([256]float64)
			}
			counts[e][bits&0xff]++
		}
		tested := 0
		for e, c := range counts {
			total := 0.
			for _, v := range c {
				total += v
			}
			if total < 256*20 {
				continue
			}
			tested++
			expected := make([]float64, 256)
			for i := range expected {
				expected[i] = total / 256
			}
			chiSquare(t, fmt.Sprintf("%s, binade %d", name, e), c[:], expected)
		}
		require.GreaterOrEqual(t, tested, 2)
	}
	one := make([]float64, 1)
	test("uniform", noise.Uniform)
	test("exponential", noise.Exponential)
	test("normal1", func(s rand.Source) float64 { noise.Normal(one, 1, s); return one[0] })
	test("normal1.7", func(s rand.Source) float64 { noise.Normal(one, 1.7, s); return one[0] })
	test("laplace", func(s rand.Source) float64 { return noise.Laplace(1.3, s) })
	test("gamma2", func(s rand.Source) float64 { return noise.Gamma(2, s) })
	test("gamma0.5", func(s rand.Source) float64 { return noise.Gamma(0.5, s) })
	test("gamma40", func(s rand.Source) float64 { return noise.Gamma(40, s) })
	test("gammanorm1", func(s rand.Source) float64 { noise.GammaNorm(one, 0.75, s); return one[0] })
	two := make([]float64, 2)
	test("gammanorm2", func(s rand.Source) float64 { noise.GammaNorm(two, 0.75, s); return two[1] })
}

// TestSmallValuesAreFine: conditioned on being tiny, draws still have all their
// bits: values below 2⁻²⁰ are not multiples of 2⁻⁶⁰, as 2⁻⁵³-uniforms would be.
func TestSmallValuesAreFine(t *testing.T) {
	src := noise.Reproducible(34)
	one := make([]float64, 1)
	for name, draw := range map[string]func() float64{
		"uniform":     func() float64 { return noise.Uniform(src) },
		"exponential": func() float64 { return noise.Exponential(src) },
		"laplace":     func() float64 { return math.Abs(noise.Laplace(1, src)) },
		"normal":      func() float64 { noise.Normal(one, 1, src); return math.Abs(one[0]) },
	} {
		small, fine := 0, 0
		for range 2_000_000 {
			x := draw()
			if x == 0 {
				t.Fatalf("%s gives 0", name)
			}
			if x < 0x1p-15 {
				small++
				if s := x * 0x1p60; s != math.Floor(s) {
					fine++
				}
			}
		}
		require.Greater(t, small, 10, name)
		// A draw of 53 bits below 2⁻¹⁵ is a multiple of 2⁻⁶⁰ if its last 8 bits vanish.
		require.GreaterOrEqual(t, fine, small*3/4, name)
	}
}
