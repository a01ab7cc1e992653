package loss

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/prefix"
)

// ErrParameter reports a parameter of a loss that makes no sense. Test with
// errors.Is.
var ErrParameter = prefix.New("loss: invalid parameter")

// Checker is the ability to check the parameters of a loss.
type Checker interface {
	// Check returns an error wrapping ErrParameter that names the field, its
	// value and the allowed range, or nil.
	Check() error
}

// Check returns an error for a nil loss, l.Check() if l is a Checker, and nil
// otherwise.
func Check(l Loss) error {
	if l == nil {
		return fmt.Errorf("%w: no loss, want one such as loss.Squared{}", ErrParameter)
	}
	if c, ok := l.(Checker); ok {
		return c.Check()
	}
	return nil
}

// DataChecker is the optional ability of a loss to refuse declared shapes of data that have no
// meaning for it. Callers ask before a record is read.
type DataChecker interface {
	// CheckData returns an error wrapping ErrParameter unless records of dim features within
	// the bounds have a meaning for the loss.
	CheckData(dim int, bounds Bounds) error
}

// CheckData returns l.CheckData if l is a DataChecker, and nil otherwise.
func CheckData(l Loss, dim int, bounds Bounds) error {
	if c, ok := l.(DataChecker); ok {
		return c.CheckData(dim, bounds)
	}
	return nil
}

// checkClasses refuses bounds under which two labels of one sign may stand for different classes.
func checkClasses(name string, bounds Bounds) error {
	if bounds.Label != 1 {
		return fmt.Errorf("%w: loss.%s tells two classes by the sign of the label, and Bounds.Label = %v; want labels coded "+
			"−1 and 1, or 0 and 1, and Label: 1", ErrParameter, name, bounds.Label)
	}
	return nil
}

// Monotone is the optional ability of a [Linear] loss to report that, for each label b, φ′(·;b) has
// the same sign at every u. One-sided accounting of linear objective perturbation uses it.
type Monotone interface {
	Monotone() bool
}

// Attained is the optional ability of a loss to report whether records have a minimizer: false
// means that the gradient of a record with a row that is not 0 vanishes nowhere. Quadratic
// objective perturbation needs one public point at which the gradients of all records vanish.
type Attained interface {
	Attained() bool
}

// monotone returns l.Monotone() if l is one, and false otherwise.
func monotone(l Loss) bool {
	m, ok := l.(Monotone)
	return ok && m.Monotone()
}

// attained returns l.Attained() if l is one, and true otherwise.
func attained(l Loss) bool {
	a, ok := l.(Attained)
	return !ok || a.Attained()
}

var (
	_ Attained = Logistic{}
	_ Attained = Multinomial{}
	_ Attained = RootHinge{}
	_ Attained = Moreau{}
	_ Attained = Clipped{}
)

// Attained returns false: the loss falls towards 0 as the margin grows.
func (Logistic) Attained() bool { return false }

// Attained returns false: the loss falls towards 0 as the margins of the label grow.
func (Multinomial) Attained() bool { return false }

// Attained returns false: the loss falls towards 0 as the margin grows.
func (RootHinge) Attained() bool { return false }

// Attained returns that of Loss, whose minimizers the envelope has.
func (l Moreau) Attained() bool { return attained(l.Loss) }

// Attained returns that of Loss: φ_c′ = 0 exactly where φ′ = 0.
func (l Clipped) Attained() bool { return attained(l.Loss) }

// Clippable is the optional ability of a Linear loss to name the predictions
// where its derivative reaches ±k, so that Clipped need not search for them.
type Clippable interface {
	Linear
	// ClipPoints returns lo ≤ hi with φ′(lo;b) = −k and φ′(hi;b) = k for k > 0,
	// −∞ or +∞ where the derivative never exceeds k on that side.
	ClipPoints(b, k float64) (lo, hi float64)
}

// twoSided returns the clip points of an odd function of u−b that reaches slope k at
// u−b = r if active, and nowhere else.
func twoSided(b float64, active bool, r float64) (lo, hi float64) {
	if !active {
		return math.Inf(-1), math.Inf(1)
	}
	return b - r, b + r
}

// oneSided returns the clip points of a decreasing function of the margin yu
// that reaches slope −k at yu = m if active, and nowhere else.
func oneSided(y float64, active bool, m float64) (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	switch {
	case active && y > 0:
		lo = m // φ′(u) = −k for u below m
	case active:
		hi = -m // φ′(u) = k for u above −m
	}
	return lo, hi
}

const badLen = "loss: length mismatch"

// prediction returns u = ⟨a,θ⟩.
func prediction(theta, a []float64) float64 {
	if len(theta) != len(a) {
		panic(badLen)
	}
	return floats.Dot(a, theta)
}

// along stores c·a in dst, the gradient of a loss of ⟨a,θ⟩ with φ′ = c.
func along(dst []float64, c float64, a []float64) {
	if len(dst) != len(a) {
		panic(badLen)
	}
	for i, ai := range a {
		dst[i] = c * ai
	}
}

// value and slope select φ and φ′ from the results of Scalar.
func value(phi, _, _ float64) float64  { return phi }
func slope(_, dphi, _ float64) float64 { return dphi }

// outward returns an upper bound of the constant x > 0 computed in float64.
// The excess 10⁻¹² covers the rounding of the constant and of the Euclidean
// norms by which rows are forced into their bound, d·2⁻⁵³ for d up to 4000.
func outward(x float64) float64 { return math.Nextafter(x*(1+1e-12), math.Inf(1)) }

// valid reports whether worst-case constants exist on these bounds. Constants
// answers the zero Constants, which mechanisms refuse, where they do not.
func valid(l Loss, bounds Bounds, radius float64) bool {
	return Check(l) == nil && bounds.Check() == nil && radius >= 0
}

// glm returns the constants of a loss of ⟨a,θ⟩, the Lipschitz constant and the smoothness
// rounded up.
func glm(l Loss, bounds Bounds, radius, lipschitz, smoothness float64) Constants {
	if !valid(l, bounds, radius) {
		return Constants{}
	}
	return Constants{Lipschitz: outward(lipschitz), Smoothness: outward(smoothness), Rank: 1, Structure: GLM}
}

// inherited returns the constants of the loss that l is made from, as those of a loss of ⟨a,θ⟩,
// and whether there are any.
func inherited(l Loss, from Linear, bounds Bounds, radius float64) (c Constants, ok bool) {
	if valid(l, bounds, radius) {
		c = from.Constants(bounds, radius)
	}
	if c.Structure == 0 {
		return Constants{}, false
	}
	c.Rank, c.Structure = 1, GLM
	return c, true
}

// reach returns the largest |u−b| on the bounds, Row·radius + Label.
func reach(bounds Bounds, radius float64) float64 { return bounds.Row*radius + bounds.Label }

// finite reports whether x is a number and not infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// checkMade checks a loss that is made from another one and a positive parameter.
func checkMade(name string, from, example Linear, parameter string, x float64) error {
	if from == nil {
		return fmt.Errorf("%w: %s.Loss is nil, want a loss of ⟨a,θ⟩ such as %T{}", ErrParameter, name, example)
	}
	if err := Check(from); err != nil {
		return err
	}
	return positive(name+"."+parameter, x)
}

// positive returns an error unless x is a positive finite number.
func positive(field string, x float64) error {
	if !(x > 0) || math.IsInf(x, 1) {
		return fmt.Errorf("%w: %s = %v, want a positive finite number", ErrParameter, field, x)
	}
	return nil
}
