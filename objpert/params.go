package objpert

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/dp"
)

// Law is the law of a perturbation.
type Law int

const (
	// DefaultLaw is Radial for OPDisc, KNorm for Product and Laplace for RSPM.
	DefaultLaw Law = iota
	// Radial has density ∝ exp(−ε‖η‖₂/Δ): pure privacy, for OPDisc.
	Radial
	// Gaussian is N(0, σ²) in every coordinate, σ by the proved calibration.
	Gaussian
	// PaperSigma is Gaussian with the σ of [NRVW20], whose proof has a gap. The
	// certificate states the ε that is proved for this σ, which may exceed the
	// ε of the budget.
	PaperSigma
	// KNorm is the law ∝ e^{−gauge(η)/t} of the polytope that the shifts span,
	// on integers: pure privacy, for Product.
	KNorm
	// OneSided is a geometric variable for each value of each coordinate: pure
	// privacy, for Product.
	OneSided
	// Laplace is a discrete Laplace variable for each separator: pure privacy,
	// for RSPM.
	Laplace
)

var lawNames = [...]string{"default", "radial", "Gaussian", "published sigma", "K-norm", "one-sided geometric", "discrete Laplace"}

// String returns the name of the law or a marker of an invalid value.
func (l Law) String() string {
	if l < 0 || int(l) >= len(lawNames) {
		return fmt.Sprintf("invalid law %d", int(l))
	}
	return lawNames[l]
}

// MarshalText encodes the name of the law.
func (l Law) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Public is all that a calibration knows: declared quantities, never a record.
// Plan fills it from a Problem.
type Public struct {
	Space
	Dim int `json:"dim"` // d
	// OracleLoss as in Problem. Without it the loss is the 0/1 loss of halfspaces.
	OracleLoss bool `json:"oracle_loss,omitempty"`
	// Range is R: the loss of one record lies in [0, R]. The 0/1 loss of
	// halfspaces has 1.
	Range float64 `json:"range"`
	// Lipschitz is G: the loss of one record changes by at most G‖w-v‖₂. 0 means
	// unknown; OPDisc takes the better of the two bounds.
	Lipschitz float64   `json:"lipschitz,omitempty"`
	Budget    dp.Budget `json:"budget"` // asked for
}

func (q Public) check() error {
	if err := q.Budget.Check(); err != nil {
		return fmt.Errorf("objpert: %w", err)
	}
	switch {
	case q.Dim < 1 || q.Dim > maxDim:
		return fmt.Errorf("%w: Dim = %d, want a number of parameters in [1, %d]", ErrMechanism, q.Dim, maxDim)
	case !(q.Range >= 0x1p-100 && q.Range <= 0x1p100):
		return fmt.Errorf("%w: Range = %v, want a positive bound on the loss of one record (1 for halfspaces)", ErrMechanism, q.Range)
	case !(q.Lipschitz == 0 || q.Lipschitz >= 0x1p-100 && q.Lipschitz <= 0x1p100):
		return fmt.Errorf("%w: Lipschitz = %v, want a positive constant, or 0 for unknown", ErrMechanism, q.Lipschitz)
	case !q.OracleLoss && q.Range < 1:
		return fmt.Errorf("%w: Range = %v, but the 0/1 loss of halfspaces has range 1; set OracleLoss for another loss",
			ErrMechanism, q.Range)
	}
	if err := q.Space.check(q.Dim); err != nil {
		return err
	}
	if least := 1 / q.step(); !q.OracleLoss && q.Lipschitz > 0 && q.Lipschitz < least {
		return fmt.Errorf("%w: Lipschitz = %v, but the 0/1 loss of halfspaces changes by 1 between points at distance %v, want 0 or at "+
			"least %v; set OracleLoss for another loss", ErrMechanism, q.Lipschitz, q.step(), least)
	}
	return nil
}

// slope is G, +Inf if unknown.
func (q Public) slope() float64 {
	if q.Lipschitz == 0 {
		return math.Inf(1)
	}
	return q.Lipschitz
}

// Params spells out a Plan: everything its noise and its claim depend on. It is
// public.
type Params struct {
	Public
	Relation dp.Relation `json:"relation"`
	Theorem  string      `json:"theorem"` // identifier, tabled in the package comment
	Law      Law         `json:"law"`
	// Proved is what the certificate claims: the Budget, with δ = 0 where the law is
	// pure, but for PaperSigma and a stated Sigma.
	Proved dp.Budget `json:"proved"`
	Noises int       `json:"noises"` // m, the number of noise variables
	// Shift is the size of the shift s_w that makes up for one record, rounding
	// included: ‖s_w‖₂ for OPDisc, in units of η; an entry for Product and RSPM.
	Shift float64 `json:"shift"`
	// Scale of the noise η: Shift/ε of the radial law, whose radius is Gamma(m)
	// times it; σ of a Gaussian; mean size of a geometric or Laplace variable; the
	// mean radius of KNorm is (m+1) times it.
	Scale float64 `json:"scale"`
	// Exponent of the grid: noise is a multiple of 2^Exponent, for OPDisc that of a
	// feature of φ(w) = (w, c(‖w‖²)).
	Exponent int `json:"exponent"`
	// FeatureBits is b: c(q) = √(Q−q) rounded to a multiple of 2^-b. 0 but for OPDisc.
	FeatureBits int `json:"feature_bits,omitempty"`
	// Time is t of P(k) ∝ e^{−|k|/t}, in steps; 0 for the laws of real variables.
	Time uint64 `json:"time,omitempty"`
	// Limit is the most noise, Σ_j max|T_j| + max|z| in steps of 2^(Exponent−FeatureBits),
	// that is used. Beyond it, and with probability 2^-CoinBits (0: never) at the
	// outset, the release is a point drawn without looking at the records.
	Limit    uint64 `json:"limit"`
	CoinBits int    `json:"coin_bits"`
	// ExcessBound bounds the expected excess of the loss, a sum over the records (of
	// votes for SampleAndAggregate),
	//
	//	E L(w) − min L ≤ E max over v, w of ⟨η, φ(w) − φ(v)⟩
	ExcessBound float64 `json:"excess_bound"`
	// Failure is β, see OPDisc.Failure.
	Failure float64 `json:"failure,omitempty"`
	// Blocks is K of SampleAndAggregate.
	Blocks int `json:"blocks,omitempty"`
}
