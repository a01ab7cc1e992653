// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/table"
)

// Errors of this package. Test with errors.Is.
var (
	// ErrOptions reports options that are not valid, by themselves or for the data.
	ErrOptions = prefix.New("model: invalid options")
	// ErrFile reports a file that is not a model, or that this version cannot read.
	ErrFile = prefix.New("model: invalid file")
)

// Options are public choices. With nil or the zero value, everything is chosen automatically.
type Options struct {
	// Loss is fitted; the zero value means Squares for a label with a range, Logistic
	// for two classes, Multinomial for more.
	Loss Loss
	// Penalty is added to the mean loss; the zero value means none.
	Penalty Penalty
	// Set constrains θ; the zero value means no constraint.
	Set Set
	// Intervals spends a share of the budget on standard errors and intervals; nil
	// means none.
	Intervals *Intervals
	// Relation of neighboring data sets; 0 means the relation of the schema, else [dp.Replace].
	Relation dp.Relation
	// Records is the declared public number of records n₀ under [dp.AddRemove]; 0 means the
	// number that the schema declares.
	Records int
	// Radius is a public guess of ‖θ‖₂, used to tune the ridge of a plan of one release; 0 means the
	// radius of the Set if that is less, and else 20, or for a label with a range 1.5 √k, k the number
	// of columns and the intercept, for rows and labels up to 1.
	Radius float64
	// Clip, if positive, is the threshold at which Squares clips gradients, in units of the
	// declared bounds Row·Label; 0 means that the plan or the fit chooses it.
	Clip float64
	// Discover holds the choices of a private search for a schema, by [Discover] and
	// [FitUndeclared]; nil means the defaults.
	Discover *Discovery
	// Ledger, if not nil, is charged before noise is drawn, and commits to what [Model.Save] writes.
	// Fit calls Spend and Commit; the caller calls neither.
	Ledger *ledger.Ledger
	// Source feeds the noise; nil means the secure source. A model from another source carries the
	// assumption [dp.CallerSource], and no ledger admits it.
	Source rand.Source
}

// Loss names a loss of package loss and its parameter.
type Loss struct {
	// Name is one of Squares, PseudoHuber, Quantile, Logistic, SVM and Multinomial.
	Name string `json:"name"`
	// Parameter is the threshold of PseudoHuber and the width of the smoothed kink of
	// SVM and of Quantile, on labels in [−1, 1]; 0 means 0.25, 0.5 and 0.1.
	Parameter float64 `json:"parameter,omitzero"`
	// Order is the order of Quantile in (0, 1); 0 means 0.5, the median.
	Order float64 `json:"order,omitzero"`
}

// Names of losses.
const (
	Squares     = "squares"      // ½(⟨a,θ⟩−b)², clipped
	PseudoHuber = "pseudo-huber" // loss.PseudoHuber
	Quantile    = "quantile"     // loss.Moreau of loss.Pinball
	Logistic    = "logistic"     // loss.Logistic
	SVM         = "svm"          // loss.RootHinge
	Multinomial = "multinomial"  // loss.Multinomial
)

// kinds are the labels that losses are for.
var kinds = map[string]table.Kind{
	Squares: table.Range, PseudoHuber: table.Range, Quantile: table.Range,
	Logistic: table.Binary, SVM: table.Binary, Multinomial: table.Classes,
}

// Losses lists the names of all losses.
func Losses() []string {
	return []string{Squares, PseudoHuber, Quantile, Logistic, SVM, Multinomial}
}

// Penalty is a regularizer of the mean loss. The sum over n₀ records gets n₀ times it:
//
//	Ridge/2·‖θ‖² + Lasso·‖θ‖₁ + Group·Σ_g ‖θ_g‖₂
//
// where a group is a column of the schema.
type Penalty struct {
	Ridge float64 `json:"ridge,omitzero"`
	Lasso float64 `json:"lasso,omitzero"`
	Group float64 `json:"group,omitzero"`
}

// Set is a convex constraint on θ, in the units of encoded rows.
type Set struct {
	// Name is one of Box, Ball, Simplex and NonNegative, or "" for ℝᵈ.
	Name string `json:"name,omitzero"`
	// Size is the half-width of the box, the radius of the ball or the total of the
	// simplex; 0 means 1.
	Size float64 `json:"size,omitzero"`
}

// Names of sets.
const (
	Box         = "box"         // |θ_j| ≤ Size
	Ball        = "ball"        // ‖θ‖₂ ≤ Size
	Simplex     = "simplex"     // θ ≥ 0, Σθ_j = Size
	NonNegative = "nonnegative" // θ ≥ 0
)

// Sets lists the names of all sets.
func Sets() []string { return []string{Box, Ball, Simplex, NonNegative} }

// Intervals ask for standard errors: the sums of the curvature and of the squared
// gradients are released too. The zero value means the defaults.
type Intervals struct {
	// HessianShare and ScoreShare are the shares of μ² that pay for the two sums; 0 means 0.20 and
	// 0.05.
	HessianShare float64 `json:"hessianShare,omitzero"`
	ScoreShare   float64 `json:"scoreShare,omitzero"`
	// Level of the intervals; 0 means 0.95.
	Level float64 `json:"level,omitzero"`
	// Radius is a public bound on the norm of the true θ, in the units of encoded rows. Intervals of
	// coefficients that the data do not identify need one; 0 means, for data with a schema, that no
	// column changes a prediction by more than the width of the range of the label, or 10 in log odds.
	Radius float64 `json:"radius,omitzero"`
}

func (o *Intervals) complete() error {
	o.HessianShare, o.ScoreShare = cmp.Or(o.HessianShare, 0.2), cmp.Or(o.ScoreShare, 0.05)
	o.Level = cmp.Or(o.Level, 0.95)
	switch {
	case !(o.HessianShare > 0 && o.ScoreShare > 0 && o.HessianShare+o.ScoreShare < 0.9):
		return fmt.Errorf("%w: HessianShare = %v and ScoreShare = %v, want positive numbers that add up to less than 0.9",
			ErrOptions, o.HessianShare, o.ScoreShare)
	case !(o.Level > 0.5 && o.Level < 0.9999):
		return fmt.Errorf("%w: Level = %v, want a number in (0.5, 0.9999)", ErrOptions, o.Level)
	case !(o.Radius >= 0) || math.IsInf(o.Radius, 1):
		return fmt.Errorf("%w: Radius of the intervals = %v, want a finite number ≥ 0", ErrOptions, o.Radius)
	}
	return nil
}

// complete fills in the default of a loss for a kind of label, and checks it.
func (l Loss) complete(kind table.Kind) (Loss, error) {
	if l.Name == "" {
		l.Name = map[table.Kind]string{table.Binary: Logistic, table.Classes: Multinomial, table.Range: Squares}[kind]
	}
	switch want := kinds[l.Name]; {
	case want == 0 && l.Name == "":
		return l, fmt.Errorf("%w: data without a schema need the name of a loss: one of %s", ErrOptions,
			strings.Join(Losses(), ", "))
	case want == 0:
		return l, fmt.Errorf("%w: Loss %.40q, want one of %s", ErrOptions, l.Name, strings.Join(Losses(), ", "))
	case kind != 0 && kind != want:
		return l, fmt.Errorf("%w: Loss %q is for %s, the label of the schema is %s", ErrOptions, l.Name, kindName(want),
			kindName(kind))
	case l.Order != 0 && l.Name != Quantile:
		return l, fmt.Errorf("%w: Order = %v is for the loss %q only, leave it 0 for others", ErrOptions, l.Order, Quantile)
	case l.Parameter != 0 && l.Name != Quantile && l.Name != PseudoHuber && l.Name != SVM:
		return l, fmt.Errorf("%w: Parameter = %v has no meaning for the loss %q", ErrOptions, l.Parameter, l.Name)
	}
	switch l.Name {
	case PseudoHuber:
		l.Parameter = cmp.Or(l.Parameter, 0.25)
	case SVM:
		l.Parameter = cmp.Or(l.Parameter, 0.5)
	case Quantile:
		l.Parameter, l.Order = cmp.Or(l.Parameter, 0.1), cmp.Or(l.Order, 0.5)
		if !(l.Order > 0 && l.Order < 1) {
			return l, fmt.Errorf("%w: Order = %v, want a number in (0, 1)", ErrOptions, l.Order)
		}
	}
	if !(l.Parameter >= 0) || math.IsInf(l.Parameter, 1) {
		return l, fmt.Errorf("%w: Parameter = %v of the loss, want a positive finite number", ErrOptions, l.Parameter)
	}
	return l, nil
}

func kindName(k table.Kind) string {
	switch k {
	case table.Binary:
		return "two classes"
	case table.Classes:
		return "classes"
	}
	return "a number"
}

// of returns the loss for labels within bounds and K classes.
func (l Loss) of(b loss.Bounds, classes int) loss.Loss {
	switch l.Name {
	case Squares:
		return loss.Squared{}
	case PseudoHuber:
		return loss.PseudoHuber{Delta: l.Parameter * b.Label}
	case Quantile: // the kink is a parabola for residuals within Parameter of 0 on the longest rows
		return loss.Moreau{Loss: loss.Pinball{Tau: l.Order}, Beta: b.Row * b.Row / (l.Parameter * b.Label)}
	case Logistic:
		return loss.Logistic{}
	case SVM:
		return loss.RootHinge{Width: l.Parameter}
	}
	return loss.Multinomial{Classes: classes}
}

// operator returns the regularizer of the sum over n records.
func (p Penalty) operator(n float64, groups [][]int) (prox.Operator, error) {
	for _, v := range []float64{p.Ridge, p.Lasso, p.Group} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return nil, fmt.Errorf("%w: Penalty %+v, want finite numbers ≥ 0", ErrOptions, p)
		}
	}
	switch {
	case p == Penalty{}:
		return nil, nil
	case n == 0:
		return nil, fmt.Errorf("%w: a Penalty of the mean loss needs a public number of records: declare \"records\" in "+
			"the schema", ErrOptions)
	case p.Group > 0 && (p.Lasso > 0 || p.Ridge > 0):
		return nil, fmt.Errorf("%w: Penalty.Group with Ridge or Lasso: want one of them", ErrOptions)
	case p.Group > 0 && groups == nil:
		return nil, fmt.Errorf("%w: Penalty.Group needs a schema, whose columns are the groups", ErrOptions)
	case p.Group > 0:
		return prox.GroupL2{Groups: groups, Weight: n * p.Group}, nil
	case p.Lasso == 0:
		return prox.SquaredL2{Weight: n * p.Ridge}, nil
	case p.Ridge == 0:
		return prox.L1{Weight: n * p.Lasso}, nil
	}
	return prox.ElasticNet{L1: n * p.Lasso, L2: n * p.Ridge}, nil
}

// size returns Size, 1 for 0.
func (s Set) size() float64 { return cmp.Or(s.Size, 1) }

// set returns the set, nil for ℝᵈ.
func (s Set) set() (prox.Set, error) {
	size := s.size()
	if !(size > 0) || math.IsInf(size, 1) {
		return nil, fmt.Errorf("%w: Set.Size = %v, want a positive finite number", ErrOptions, s.Size)
	}
	switch s.Name {
	case "":
		if s.Size != 0 {
			return nil, fmt.Errorf("%w: Set.Size = %v without a name, want one of %s", ErrOptions, s.Size,
				strings.Join(Sets(), ", "))
		}
		return nil, nil
	case Box:
		return prox.Box{Lo: -size, Hi: size}, nil
	case Ball:
		return prox.L2Ball{R: size}, nil
	case Simplex:
		return prox.Simplex{Total: size}, nil
	case NonNegative:
		return prox.NonNegative{}, nil
	}
	return nil, fmt.Errorf("%w: Set %.40q, want one of %s", ErrOptions, s.Name, strings.Join(Sets(), ", "))
}

// columnGroups returns the coordinates of every column of the schema, class by class.
func columnGroups(e *table.Encoder) [][]int {
	if e == nil {
		return nil
	}
	var groups [][]int
	p := len(e.Features())
	for first := 0; first < e.Dim(); first += p {
		last := ""
		for j, f := range e.Features() {
			if f.Column == "" { // the intercept is free
				continue
			}
			if f.Column != last {
				groups, last = append(groups, nil), f.Column
			}
			groups[len(groups)-1] = append(groups[len(groups)-1], first+j)
		}
	}
	return slices.Clip(groups)
}
