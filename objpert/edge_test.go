package objpert

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/fault"
	sample "github.com/privopt/privopt/noise"
)

// Noise beyond exact arithmetic, which no calibration makes likely, withholds.
func TestNoiseBeyondRange(t *testing.T) {
	p, err := NewProblem([][]int64{{1, 2}}, []int{1}, nil, ternary())
	require.NoError(t, err)
	for _, m := range []interface {
		Plan(*Problem, dp.Budget) (*Plan, error)
	}{&Product{}, &SampleAndAggregate{Blocks: 1, Heuristic: exactly}} {
		pl, err := m.Plan(p, dp.Budget{Epsilon: 1})
		require.NoError(t, err)
		pl.grid.t, pl.grid.bits = maxTime, 30
		pl.Grid = 1 // steps of 1 where 2⁻³⁰ is claimed
		rel, err := pl.Fit(bg, p, sample.Reproducible(1))
		require.Nil(t, rel)
		require.ErrorIs(t, err, dp.ErrWithheld)
	}
}

// Searches for a scale or an ε end where there is none.
func TestHopelessCalibrations(t *testing.T) {
	never := func(float64, float64) float64 { return 0 }
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	require.Equal(t, math.Inf(1), leastSigma(never, b, 1, 1))
	require.Equal(t, math.Inf(1), provedEpsilon(never, 1, 1e-6))
	always := func(float64, float64) float64 { return math.Inf(-1) }
	require.Equal(t, dp.MinEpsilon, provedEpsilon(always, 1, 1e-6))
	require.Positive(t, leastSigma(always, b, 1, 1))

	_, err := (&RSPM{Law: PaperSigma}).Calibrate(Public{Space: cube(), Dim: 8000, Range: 1, Budget: dp.Budget{Epsilon: 1e5, Delta: 0.999}})
	require.ErrorIs(t, err, dp.ErrCondition)
	for _, m := range []interface{ Calibrate(Public) (*Plan, error) }{&Product{}, &RSPM{}} {
		_, err = m.Calibrate(Public{Space: ternary(), Dim: 5000, Range: 1, Budget: b})
		require.ErrorIs(t, err, ErrMechanism)
		_, err = m.Calibrate(Public{})
		require.ErrorIs(t, err, dp.ErrBudget)
	}
	_, err = (&Product{}).Plan(nil, b)
	require.ErrorIs(t, err, ErrProblem)
	_, err = (&RSPM{}).Plan(nil, b)
	require.ErrorIs(t, err, ErrProblem)
	_, err = (&OPSamp{}).Plan(&Problem{Dim: 1, X: [][]int64{{1}}, Pos: []int{1}, Neg: []int{0}}, b)
	require.ErrorIs(t, err, ErrProblem)
	_, err = (&RSPM{}).Calibrate(Public{Space: ternary(), Dim: 4000, Range: 0x1p60, Budget: b})
	require.ErrorIs(t, err, dp.ErrCondition)
}

// A declared slope lowers Δ where it is the better bound.
func TestLipschitz(t *testing.T) {
	at := func(g float64) float64 {
		p, err := (&OPDisc{}).Calibrate(Public{Space: Lattice(9), Dim: 4, Range: 1, Lipschitz: g, Budget: dp.Budget{Epsilon: 1}})
		require.NoError(t, err)
		return p.Shift
	}
	require.Equal(t, at(0), at(10))
	require.InEpsilon(t, 4*0.1*9, at(0.1), 1e-12)
}

// The 0/1 loss of halfspaces jumps by 1: no smaller slope is believed, wherever
// it is declared.
func TestLipschitzOfHalfspaces(t *testing.T) {
	b := dp.Budget{Epsilon: 1}
	rows, labels := [][]int64{{1, 0}, {0, 1}}, []int{1, -1}
	for _, c := range []struct {
		space Space
		least float64
	}{
		{Lattice(2), 1},
		{Space{Values: []int{-1, 1}, NormSq: -1}, 0.5},
		{Space{Values: []int{-3, 0, 3, 7}, NormSq: 60}, 1. / 3},
	} {
		p, err := NewProblem(rows, labels, nil, c.space)
		require.NoError(t, err)
		for _, g := range []float64{1e-6, 0.99 * c.least} {
			_, err = (&OPDisc{Lipschitz: g}).Fit(bg, p, b, nil)
			require.ErrorIs(t, err, ErrMechanism)
			require.ErrorContains(t, err, "Lipschitz")
			plan, err := (&OPDisc{Lipschitz: g}).Calibrate(Public{Space: c.space, Dim: 2, Range: 1, Lipschitz: g, Budget: b})
			require.NoError(t, err) // a loss that only an oracle knows
			_, err = plan.Fit(bg, p, nil)
			require.ErrorIs(t, err, ErrMechanism)
		}
		for _, g := range []float64{0, c.least, 5} {
			_, err = (&OPDisc{Lipschitz: g}).Fit(bg, p, b, nil)
			require.NoError(t, err)
		}
		other := &Problem{Space: c.space, Dim: 2} // no rows
		_, err = (&OPDisc{Range: 1, Lipschitz: 1e-6}).Plan(other, b)
		require.NoError(t, err)
	}
}

// No way of printing or encoding a problem shows a record or noise.
func TestProblemPrintsNothing(t *testing.T) {
	p, err := NewProblem([][]int64{{1, 40}, {0, 1}}, []int{1, -1}, nil, Lattice(2))
	require.NoError(t, err)
	p, err = p.Perturb([][]float64{{7.5, 7.5, 7.5}, {7.5, 7.5, 7.5}}, []float64{7.5, 7.5, 7.5})
	require.NoError(t, err)
	const want = "objpert.Problem(d = 2, Q = 2)"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		require.Equal(t, want, fmt.Sprintf(verb, p))
		require.Equal(t, want, fmt.Sprintf(verb, *p))
		require.NotContains(t, fmt.Sprintf(verb, []any{p, struct{ P Problem }{*p}}), "40")
	}
	require.Equal(t, "objpert.Problem(d = 1)", (&Problem{Space: Space{NormSq: -1}, Dim: 1}).String())
	require.Equal(t, "objpert.Problem(nil)", (*Problem)(nil).String())
	_, err = json.Marshal(p)
	require.ErrorIs(t, err, errSecret)
	require.ErrorIs(t, gob.NewEncoder(io.Discard).Encode(p), errSecret)
}

// Plans compare what spaces admit, not how they say it.
func TestSameSpace(t *testing.T) {
	all := [][]bool{{true, true, true}, {true, true, true}}
	some := [][]bool{{true, true, true}, {true, false, true}}
	base := Space{Values: []int{-1, 0, 1}, NormSq: 2}
	for _, c := range []struct {
		other Space
		same  bool
	}{
		{base, true},
		{Space{Values: base.Values, NormSq: 2, Allowed: all}, true},
		{Space{Values: base.Values, NormSq: 2, Allowed: some}, false},
		{Space{Values: base.Values, NormSq: 2, Allowed: all[:1]}, false},
		{Space{Values: base.Values, NormSq: 2, Allowed: [][]bool{{true}, {true}}}, false},
		{Space{Values: base.Values, NormSq: 3}, false},
		{Space{Values: []int{-1, 0, 2}, NormSq: 2}, false},
		{Space{Values: []int{-1, 0}, NormSq: 2}, false},
	} {
		require.Equal(t, c.same, sameSpace(&base, &c.other, 2), fmt.Sprint(c.other))
		require.Equal(t, c.same, sameSpace(&c.other, &base, 2), fmt.Sprint(c.other))
	}
	require.True(t, own(Enumerate{}))
	require.True(t, own(&Enumerate{}))
}

// refusing is an oracle that finds fault with the problem.
type refusing struct{}

func (refusing) Solve(context.Context, *Problem) (*Solution, error) {
	return nil, fmt.Errorf("%w: not for me", ErrProblem)
}

func TestOracleRefuses(t *testing.T) {
	p, err := NewProblem([][]int64{{1, 2}}, []int{1}, nil, ternary())
	require.NoError(t, err)
	_, err = (&Product{Oracle: refusing{}}).Fit(bg, p, dp.Budget{Epsilon: 1}, nil)
	require.ErrorIs(t, err, ErrProblem)
	require.NotErrorIs(t, err, dp.ErrWithheld)

	pl, err := (&SampleAndAggregate{Blocks: 1, Heuristic: exactly}).Plan(p, dp.Budget{Epsilon: 1})
	require.NoError(t, err)
	bad := &Problem{Space: ternary(), Dim: 2, X: [][]int64{{1}}, Pos: []int{1}, Neg: []int{0}}
	_, err = pl.Fit(bg, bad, nil)
	require.ErrorIs(t, err, ErrProblem)
}

// A control that draws too few variables reaches the oracle: it is seen, not a
// panic.
func TestTooFewVariables(t *testing.T) {
	for _, m := range []interface {
		calibrate(*fault.Set, Public) (*Plan, error)
	}{&OPDisc{}, &RSPM{}} {
		space := ternary()
		if _, ok := m.(*OPDisc); ok {
			space = Lattice(4)
		}
		f := fault.From(fault.With(bg, fault.NoiseDimension, func(m int) int { return m - 2 }))
		pl, err := m.calibrate(f, Public{Space: space, Dim: 3, Range: 1, Budget: dp.Budget{Epsilon: 1}})
		require.NoError(t, err)
		table, _ := pl.draw(f, sample.Reproducible(1))
		require.Zero(t, table[2][0])
	}
}

// Laws and separators print.
func TestStrings(t *testing.T) {
	for l := DefaultLaw; l <= Laplace; l++ {
		require.NotContains(t, l.String(), "invalid")
	}
	require.Contains(t, Law(-1).String(), "invalid")
	require.Contains(t, Law(99).String(), "invalid")
	require.Equal(t, "thresholds", Thresholds.String())
	require.Contains(t, Separator(9).String(), "invalid")
}
