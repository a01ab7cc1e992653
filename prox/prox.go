// Package prox holds convex functions that are known by their proximal map and
// convex sets that are known by their projection.
//
// # Operators
//
//	functions        L1, SquaredL2, ElasticNet, L1Box, L2Norm, LInfNorm, GroupL2,
//	                 SortedL1, TotalVariation, Huber, Hinge, LogBarrier, Entropy
//	sets             NonNegative, Box, LInfBall, L1Ball, L2Ball, Simplex,
//	                 HalfSpace, Affine, SecondOrderCone
//	of matrices      NuclearNorm, NuclearBall, SpectralBall, PSDCone, held row by row
//	overlapping      SplitGroups: groups that share coordinates, as a sum
//	                 of GroupL2
//	calculus         Sum        g + h
//	                 Translate  g(x − b)
//	                 Scale      w·g(ax)
//	                 Blocks     Σ_k g_k(x_k) over ranges of coordinates
//	                 Conjugate  g*, and ProxConjugate, its proximal map for every g
//	                 TightFrame g(Ax), AAᵀ = νI
//
// All operators that are types but Entropy are Subdifferentials; an operator of the
// calculus is one where the rounding of its argument leaves faces decidable,
// see there. Lipschitz bounds subgradients where that is possible,
// and bounded sets that are LinearMinimizers serve the Frank–Wolfe method. Proximal
// maps cost O(d), but for a logarithm in SortedL1, a handful of passes where a
// root is sought (LInfNorm, L1Ball, Simplex), the product with the matrix in
// Affine and TightFrame and a matrix decomposition in those of matrices.
//
// # Notation
//
//	γ               step size, gamma
//	prox_{γg}(x)    argmin_u g(u) + ‖u−x‖²/(2γ), Operator.Prox
//	∂g(x)           the subdifferential, Subdifferential
//	ι_C, N_C(x)     the indicator of C and its normal cone at x
//	g*              the convex conjugate, Conjugate
//	P_C             the projection onto C
//	(·)₊            max(·, 0), of a symmetric matrix on its eigenvalues
//	UΣVᵀ, σ_k       the singular value decomposition, σ_1 ≥ σ_2 ≥ … ≥ 0
//
// # Lengths
//
// Functions that compute with vectors panic where lengths do not match, as those of gonum do: that is
// a mistake in the program. Constructors, and functions that return an error, report it.
//
// # References
//
//	[BC17]  Bauschke, Combettes. Convex Analysis and Monotone Operator Theory
//	        in Hilbert Spaces, 2nd ed. 2017.
//	[PB14]  Parikh, Boyd. Proximal Algorithms. 2014.
//	[Yu13]  Yu. On Decomposing the Proximal Map. NIPS 2013.
//	[HWC74] Held, Wolfe, Crowder. Validation of Subgradient Optimization.
//	        Math. Program. 1974. Projection on the simplex.
//	[DSSC08] Duchi, Shalev-Shwartz, Singer, Chandra. Efficient Projections
//	        onto the ℓ1-Ball for Learning in High Dimensions. ICML 2008.
//	[BBSSC15] Bogdan, van den Berg, Sabatti, Su, Candès. SLOPE: Adaptive
//	        Variable Selection via Convex Optimization. Ann. Appl. Stat. 2015.
//	[CCS10] Cai, Candès, Shen. A Singular Value Thresholding Algorithm for
//	        Matrix Completion. SIAM J. Optim. 2010.
//	[Joh13] Johnson. A Dynamic Programming Algorithm for the Fused Lasso and
//	        L0-Segmentation. J. Comput. Graph. Stat. 2013.
//	[FHHT07] Friedman, Hastie, Höfling, Tibshirani. Pathwise Coordinate
//	        Optimization. Ann. Appl. Stat. 2007.
//	[LCJ12] Lawrence, Corless, Jeffrey. Algorithm 917: Complex Double-Precision
//	        Evaluation of the Wright ω Function. ACM Trans. Math. Softw. 2012.
//	[ORO05] Ogita, Rump, Oishi. Accurate Sum and Dot Product. SIAM J. Sci.
//	        Comput. 2005.
//
// # Values
//
// Parameters are plain fields; Check reports the ones that make no sense, and
// results of an operator that fails it are unspecified. A NaN coordinate of x
// stays NaN under Prox, so that a solver sees it; Func and Dist return +Inf
// where x is not a finite point of the domain, never NaN.
package prox

import (
	"errors"
	"fmt"
	"math"
)

const badLen = "prox: length mismatch"

// Operator is a closed convex proper function g known through its proximal map.
//
// Implementations are immutable once built and safe for concurrent use. Both
// methods panic when lengths do not match the dimension of g.
type Operator interface {
	// Func returns g(x), +Inf outside the domain.
	Func(x []float64) float64
	// Prox stores prox_{γg}(x) = argmin_u g(u) + ‖u−x‖²/(2γ), γ > 0, in dst,
	// which may be x. It does not allocate.
	Prox(dst, x []float64, gamma float64)
}

// Set is the indicator ι_C of a closed convex set. Prox projects onto C and
// ignores gamma.
type Set interface {
	Operator
	// Radius returns sup{‖x‖₂ : x ∈ C} in dim dimensions, +Inf if C is unbounded.
	Radius(dim int) float64
}

// Subdifferential is the optional ability to measure the distance from −v to
// ∂g(x). It is what a certificate of optimality is made of.
type Subdifferential interface {
	Operator
	// Dist returns dist(−v, ∂g(x)) = min{‖v+u‖₂ : u ∈ ∂g(x)}, and +Inf where
	// x is outside the domain. Whether x lies at a kink or on a face is
	// decided exactly, never by a tolerance: an interior point that is taken
	// for a boundary point would under-report the distance. Where float64 has
	// hardly any point on the face, as on a sphere, the operator is Rounded.
	Dist(x, v []float64) float64
}

// Rounded is the ability of a Subdifferential whose faces contain hardly any
// float64 vector: a sphere, a hyperplane. There x stands for a point x′ of the
// domain that is close to it and known in real arithmetic, Dist(x, v) is
// dist(−v, ∂g(x′)), and Shift(x) ≥ ‖x′−x‖₂ says how close. An operator without
// this ability has x′ = x.
//
// What a certificate makes of it: let J = f + g be μ-strongly convex with
// minimizer z and ∇f L_f-Lipschitz. Then e = ∇f(x′) + u, u ∈ ∂g(x′), is in
// ∂J(x′), so ‖x′−z‖ ≤ ‖e‖/μ; with the u nearest to −∇f(x),
// ‖e‖ ≤ Dist(x, ∇f(x)) + L_f‖x′−x‖; so
//
//	‖x−z‖ ≤ (Dist(x, ∇f(x)) + (L_f+μ)·Shift(x)) / μ
//
// and Dist + (L_f+μ)·Shift is a residual of x that nothing under-reports,
// however large Shift is. Projections of this package keep Shift at a few
// units in the last place of the point.
type Rounded interface {
	Subdifferential
	// Shift returns an upper bound on ‖x′−x‖₂ for the x′ of Dist, and +Inf
	// where x is outside the domain.
	Shift(x []float64) float64
}

// Shift returns op.Shift(x) if op is Rounded and 0 otherwise.
func Shift(op Operator, x []float64) float64 {
	if r, ok := op.(Rounded); ok {
		return r.Shift(x)
	}
	return 0
}

// Coordinatewise is the ability of an operator that is a sum over coordinates,
//
//	g(x) = Σ_i l1|x_i| + (l2/2)x_i² + ι_[lo,hi](x_i),
//
// to show its coefficients, l1, l2 ≥ 0 and lo ≤ hi, which may be infinite.
// Coordinate descent uses it.
type Coordinatewise interface {
	Operator
	Coordinate(i int) (l1, l2, lo, hi float64)
}

// ErrParameter reports a parameter of an operator that makes no sense. Test
// with errors.Is.
var ErrParameter = errors.New("prox: invalid parameter")

// Checker is the ability to check parameters for use in dim dimensions.
type Checker interface {
	// Check returns an error wrapping ErrParameter that names the field, its
	// value and the allowed range, or nil.
	Check(dim int) error
}

// Check returns op.Check(dim) if op is a Checker, and nil otherwise and for a
// nil op, which is 0.
func Check(op Operator, dim int) error {
	if c, ok := op.(Checker); ok {
		return c.Check(dim)
	}
	return nil
}

// weight returns an error unless w is a finite number of at least 0.
func weight(field string, w float64) error {
	if !(w >= 0) || math.IsInf(w, 1) {
		return fmt.Errorf("%w: %s = %v, want a finite number of at least 0", ErrParameter, field, w)
	}
	return nil
}
