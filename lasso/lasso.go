// Package lasso makes instances of the ℓ1 least-squares experiment with a
// planted parameter, and reruns the procedure that was published with it.
//
//	min_θ  Σᵢ ½(xᵢ'θ − yᵢ)² + λ‖θ‖₁   over the box [−κ, κ]ᵈ
//
// Instance and its erm.Problem serve the certified mechanisms. Paper is the
// published procedure with its published constants, defects included. It is
// not private: its bounds are read off the labels, its noise is calibrated for
// another relation, and its stochastic solver certifies nothing.
//
// # Notation
//
//	n, d           records, parameters
//	X, y           rows and labels, Instance.X and Y; yᵢ = xᵢ'θ_true
//	ξ              Instance.Xi, the norm of every row
//	θ_true, θ_ref  Instance.Truth, Anchor
//	κ, λ           kappa, the half-width of the box, and lambda, the weight of ℓ1
//	W, m           a Wishart matrix and its degrees of freedom, Experiment.Dof
//	L, σ²          Experiment.L and sigma2: smoothness of one record, scale of W
//	Δ, ζ, s, ω     Perturbation: ridge, gradient bound, noise scale, step size
//
// # Lengths
//
// Functions that compute with vectors panic where lengths do not match, as those of gonum do: that is
// a mistake in the program. Constructors, and functions that return an error, report it.
//
// # References
//
//	[CC26]   Cortild, Cartis. Quadratic Objective Perturbation:
//	         Curvature-Based Differential Privacy. 2026.
//	[KST12]  Kifer, Smith, Thakurta. Private Convex Empirical Risk
//	         Minimization and High-dimensional Regression. COLT 2012.
package lasso

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// ErrParameter reports a parameter outside its range. Test with errors.Is.
var ErrParameter = errors.New("lasso: invalid parameter")

const badLen = "lasso: length mismatch"

// Spec says how to draw an Instance.
type Spec struct {
	N, D        int     // records and parameters, at least 1
	Xi          float64 // ξ, the norm of every row, positive
	AnchorNoise float64 // the standard deviation of θ_ref − θ_true, at least 0
}

// Instance is one draw of the data. It is synthetic or published, and not
// private unless a caller reads private records into it.
type Instance struct {
	X      *mat.Dense // n×d, rows xᵢ
	Y      []float64  // n labels
	Truth  []float64  // θ_true, d, nil if not known
	Anchor []float64  // θ_ref, d, nil if there is none
	Xi     float64    // ξ
}

// largestNorm keeps products of numbers and their squares in float64.
const largestNorm = 1e150

// Generate draws an instance [CC26, §5.2]: xᵢ standard normal, rescaled to norm ξ; θ_true ~ N(0,
// I); yᵢ = xᵢ'θ_true; θ_ref = θ_true + AnchorNoise·N(0, I). The error wraps ErrParameter.
func Generate(s Spec, src rand.Source) (*Instance, error) {
	switch {
	case s.N < 1:
		return nil, fmt.Errorf("%w: N = %d records, want at least 1", ErrParameter, s.N)
	case s.D < 1:
		return nil, fmt.Errorf("%w: D = %d parameters, want at least 1", ErrParameter, s.D)
	case !(s.Xi > 0 && s.Xi <= largestNorm):
		return nil, fmt.Errorf("%w: Xi = %v, want a positive norm of at most %g", ErrParameter, s.Xi, largestNorm)
	case !(s.AnchorNoise >= 0 && s.AnchorNoise <= largestNorm):
		return nil, fmt.Errorf("%w: AnchorNoise = %v, want a number in [0, %g]", ErrParameter, s.AnchorNoise, largestNorm)
	case src == nil:
		return nil, fmt.Errorf("%w: the source is nil, want for example dp.Seeded(1)", ErrParameter)
	}
	in := &Instance{
		X:      mat.NewDense(s.N, s.D, nil),
		Y:      make([]float64, s.N),
		Truth:  make([]float64, s.D),
		Anchor: make([]float64, s.D),
		Xi:     s.Xi,
	}
	for i := range s.N {
		row := in.X.RawRowView(i)
		noise.Normal(row, 1, src)
		floats.Scale(s.Xi/floats.Norm(row, 2), row)
	}
	noise.Normal(in.Truth, 1, src)
	for i := range in.Y {
		in.Y[i] = floats.Dot(in.X.RawRowView(i), in.Truth)
	}
	noise.Normal(in.Anchor, 1, src)
	floats.Scale(s.AnchorNoise, in.Anchor)
	floats.Add(in.Anchor, in.Truth)
	return in, nil
}

// Dims returns n and d.
func (in *Instance) Dims() (n, d int) { return in.X.Dims() }

// String returns the dimensions.
func (in *Instance) String() string {
	if in == nil || in.X == nil {
		return "lasso.Instance(0×0)"
	}
	n, d := in.Dims()
	return fmt.Sprintf("lasso.Instance(%d×%d)", n, d)
}

// Format prints String for every verb.
func (in Instance) Format(f fmt.State, _ rune) { io.WriteString(f, in.String()) }

// Data returns the records as erm.Data with declared bounds ‖xᵢ‖₂ ≤ ξ and |yᵢ| ≤ labelBound, into
// which they are forced; 5ξ is a bound that few labels exceed. The error wraps erm.ErrData.
func (in *Instance) Data(labelBound float64) (*erm.Data, error) {
	return erm.NewDataDense(in.X, in.Y, loss.Bounds{Row: in.Xi, Label: labelBound})
}

// Problem returns Σᵢ ½(aᵢ'θ−bᵢ)² + λ‖θ‖₁ over [−κ, κ]ᵈ on data, which several problems may share.
func Problem(data *erm.Data, lambda, kappa float64) *erm.Problem {
	return &erm.Problem{
		Data: data,
		Loss: loss.Squared{},
		Reg:  prox.L1{Weight: lambda},
		Set:  prox.Box{Lo: -kappa, Hi: kappa},
	}
}

// Risk returns ½ mean (xᵢ'θ − yᵢ)², the empirical risk of the experiment. Not private.
func (in *Instance) Risk(theta []float64) float64 {
	n, d := in.Dims()
	if len(theta) != d {
		panic(badLen)
	}
	sum := 0.0
	for i, y := range in.Y {
		r := floats.Dot(in.X.RawRowView(i), theta) - y
		sum += r * r
	}
	return sum / (2 * float64(n))
}
