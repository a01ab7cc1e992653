package randmat

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/noise"
)

// block is the number of rows that stay in cache while the others pass by.
const block = 16

// Wishart overwrites dst, d×d, with a draw from W_d(m) for an integer m with
// d ≤ m ≤ 2¹⁶, by Bartlett's decomposition [Bar33]: W = T T' with T lower triangular,
//
//	T_ii² ~ χ²_{m-i+1} (i = 1…d),  T_ij ~ N(0,1) for i > j,  all independent.
//
// E W = m I. Every entry of the computed T is within a relative 3u of a real number,
// and the product of these real numbers has exactly the law W_d(m); WishartError
// bounds how far dst is from it. The time grows like d m + d³.
//
// It returns an error wrapping ErrDegrees or ErrDimension, and then fills dst with
// NaN, so that a caller who ignores the error cannot go on without noise.
func Wishart(dst *mat.SymDense, m float64, src rand.Source) error {
	if dst == nil || src == nil {
		return fmt.Errorf("%w: the matrix or the source is nil, want both", ErrDimension)
	}
	d := dst.SymmetricDim()
	if err := checkDraw(d, m); err != nil {
		poison(dst)
		return err
	}
	buf := take(d * d)
	defer give(buf)
	t := *buf
	for i := range d {
		row := t[i*d : i*d+i+1]
		noise.Normal(row[:i], 1, src)
		row[i] = math.Sqrt(noise.ChiSquared(int(m)-i, src))
	}
	w := dst.RawSymmetric()
	for i0 := 0; i0 < d; i0 += block {
		for j := i0; j < d; j++ {
			tj := t[j*d : j*d+d]
			for i := i0; i <= min(j, i0+block-1); i++ {
				w.Data[i*w.Stride+j] = floats.Dot(t[i*d:i*d+i+1], tj[:i+1]) // W_ij = Σ_{l≤i} T_il T_jl
			}
		}
	}
	return nil
}

// WishartError returns a bound of ‖W - W̃‖₂, W̃ the matrix of dimension dim that Wishart has
// computed and trace its trace as computed, and W the matrix with exactly the law W_d(m) that W̃
// stands for. For σ² > 0, σ² WishartError bounds ‖σ²W - fl(σ²W̃)‖₂ as well:
//
//	‖W - W̃‖₂ ≤ (d+12) u (1+2⁻¹⁶) tr W̃,  d ≤ 2³²
//
// It is +Inf where nothing is known: dim < 1, or a trace that is negative or NaN. Proof:
// docs/theory/numerics.md#numerics.wishart
func WishartError(dim int, trace float64) float64 {
	if !(dim >= 1 && trace >= 0) {
		return math.Inf(1)
	}
	return float64(dim+12) * 0x1p-53 * (1 + 0x1p-16) * trace
}

// maxDegrees is the largest number of degrees of freedom that is drawn: the time
// of a draw grows like d·m.
const maxDegrees = 1 << 16

// checkDraw reports whether W_d(m) exists and can be drawn.
func checkDraw(d int, m float64) error {
	if err := checkDegrees(d, m); err != nil {
		return err
	}
	if m != math.Floor(m) || m > maxDegrees {
		return fmt.Errorf("%w: m = %v, want an integer up to 2^16 to draw", ErrDegrees, m)
	}
	return nil
}

// checkDegrees reports whether W_d(m) exists.
func checkDegrees(d int, m float64) error {
	switch {
	case d == 0:
		return fmt.Errorf("%w: want at least one row", ErrDimension)
	case !(m > float64(d-1)):
		return fmt.Errorf("%w: m = %v in dimension %d, want m > %d", ErrDegrees, m, d, d-1)
	case m > 0x1p50:
		return fmt.Errorf("%w: m = %v, want m ≤ 2^50", ErrDegrees, m)
	}
	return nil
}

// poison fills dst with NaN.
func poison(dst *mat.SymDense) {
	raw := dst.RawSymmetric()
	for i := range raw.N {
		row := raw.Data[i*raw.Stride : i*raw.Stride+raw.N]
		for j := range row {
			row[j] = math.NaN()
		}
	}
}

const (
	maxAttempts = 1000
	leastChance = 0.01 // of a window; maxAttempts then all miss with probability below 5e-5
)

// WishartBetween overwrites dst with a draw from W_d(m) conditioned on
// α ≤ λ_min and λ_max ≤ β: it draws until the spectrum lies in the window. The
// decision reads W and nothing else, so the law of the result is public. It is
// rigorous: a matrix is taken only if Cholesky factorizations with an allowance
// for rounding prove both inequalities (see MinEig), which refuses matrices
// within about d u tr W of a bound. alpha ≤ 0 and beta = +Inf lift a bound.
//
// Conditioning is not free: if without the window an (ε, δ) guarantee holds, and the W and W' that
// explain one output satisfy ‖W - W'‖₂ ≤ t, then for the window λ_min ≥ α it holds with the same ε and
//
//	δ_α = [δ + min(F(α+t) - F(α), e^ε F(α))]/P,  P = 1 - F(α)
//
// (docs/theory/numerics.md#numerics.window), and likewise for λ_max ≤ β.
//
// Errors wrap ErrDegrees, ErrDimension, or ErrWindow: alpha or beta is NaN or
// alpha ≥ beta; or the window has probability below 1 %, by
// λ_min ≤ 1/(W⁻¹)₁₁ ~ χ²_{m-d+1} and λ_max ≥ W₁₁ ~ χ²_m; or 1000 draws missed it.
// On an error dst holds NaN.
func WishartBetween(dst *mat.SymDense, m, alpha, beta float64, src rand.Source) error {
	if dst == nil || src == nil {
		return fmt.Errorf("%w: the matrix or the source is nil, want both", ErrDimension)
	}
	d := dst.SymmetricDim()
	err := checkDraw(d, m)
	if err == nil {
		err = checkWindow(d, m, alpha, beta)
	}
	if err != nil {
		poison(dst)
		return err
	}
	for range maxAttempts {
		if err := Wishart(dst, m, src); err != nil {
			return err
		}
		if between(dst, alpha, beta) {
			return nil
		}
	}
	poison(dst)
	return fmt.Errorf("%w: none of %d draws has eigenvalues in [%v, %v] at d = %d, m = %v; widen the window",
		ErrWindow, maxAttempts, alpha, beta, d, m)
}

// checkWindow refuses a window that a draw hits with probability below leastChance.
func checkWindow(d int, m, alpha, beta float64) error {
	if !(alpha < beta) {
		return fmt.Errorf("%w: [%v, %v] is empty", ErrWindow, alpha, beta)
	}
	k := m - float64(d) + 1
	if p := num.Chi2SF(max(alpha, 0), k); p < leastChance {
		return fmt.Errorf("%w: P(λ_min ≥ %v) ≤ %.2g at d = %d, m = %v, want alpha ≤ %.6g",
			ErrWindow, alpha, p, d, m, num.Chi2UpperQuantile(num.Log(leastChance), k))
	}
	if p := num.Chi2CDF(max(beta, 0), m); p < leastChance {
		return fmt.Errorf("%w: P(λ_max ≤ %v) ≤ %.2g at d = %d, m = %v, want beta ≥ %.6g",
			ErrWindow, beta, p, d, m, num.Chi2Quantile(num.Log(leastChance), m))
	}
	return nil
}

// between proves α ≤ λ_min(a) and λ_max(a) ≤ β, or returns false.
func between(a *mat.SymDense, alpha, beta float64) bool {
	w, ok := newWork(a)
	if !ok {
		return false
	}
	defer w.free()
	// A - x'I positive definite proves λ_min(A) ≥ x' - margin ≥ x, if x' = x + slack.
	if x := alpha / w.scale; alpha > 0 {
		if bound, ok := w.atLeast(x + w.slack(x)); !ok || bound < x {
			return false
		}
	}
	if x := beta / w.scale; !math.IsInf(beta, 1) {
		if bound, ok := w.atMost(x - w.slack(x)); !ok || bound > x {
			return false
		}
	}
	return true
}
