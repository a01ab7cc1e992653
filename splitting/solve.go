// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/prox"
)

const badLen = "splitting: length mismatch"

const (
	defaultIterations = 100_000
	defaultRelative   = 1e-9
	defaultTolerance  = 1e-9 // of a method that knows no relative residuals
	// finiteEvery is how often X is scanned for NaN without a Recorder: scanning every iterate would
	// cost a tenth of a stochastic step.
	finiteEvery = 16
)

// Solve minimizes p.F + p.G + p.H∘p.K by m from x0, which it does not change. A nil s means the
// defaults.
//
// It stops when X meets s.Relative, s.Tolerance or s.Gap (Converged), after s.Iterations
// (IterationLimit) or s.Runtime (RuntimeLimit), when ctx is done (Cancelled), when rounding allows
// no progress before X meets the setting (Stalled), when the method has a certificate that there is
// no minimizer (Infeasible, Unbounded), and on a Recorder's error or a NaN (Failure).
//
// The error is nil for Converged, IterationLimit, RuntimeLimit and Stalled; [Status.Err] reports an
// early ending. The error is ctx.Err() for Cancelled, the Recorder's own, or wraps ErrInfeasible,
// ErrUnbounded or ErrNaN; the Result then holds the last finite point, with residual +Inf after a
// NaN. The Result is nil if the error wraps ErrSettings or ErrProblem, or wraps ErrNaN because x0
// is not finite.
//
// Solve compares the dimensions of K, and of an F with a method Dim() int, with len(x0). Other
// terms panic if their dimension is wrong, except operators with a Check.
func Solve(ctx context.Context, p Problem, x0 []float64, s *Settings, m Method) (*Result, error) {
	switch {
	case m == nil:
		return nil, invalid("the Method is nil, want one such as &DavisYin{}, or Minimize")
	case ctx == nil:
		return nil, invalid("ctx is nil, want one such as context.Background()")
	}
	if s == nil {
		s = &Settings{}
	}
	s, err := s.checked()
	if err != nil {
		return nil, err
	}
	if err := p.check(x0); err != nil {
		return nil, err
	}

	start := time.Now()
	limited := ctx
	if s.Runtime > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, s.Runtime)
		defer cancel()
	}
	if w, ok := m.(warm); ok {
		if rows := p.rows(len(x0)); s.Dual != nil && (len(s.Dual) != rows || !finite(s.Dual)) {
			return nil, invalid("Dual has %d entries, want %d finite ones, the length of Kx, or nil", len(s.Dual), rows)
		}
		w.begin(s.Dual)
	}
	if err := m.Init(p, x0, rand.New(s.Src)); err != nil {
		return nil, err
	}
	if s.Recorder != nil {
		if err := s.Recorder.Init(); err != nil {
			return nil, err
		}
	}
	loc := Location{X: slices.Clone(x0), Residual: math.Inf(1)}
	last := slices.Clone(x0) // the last point known to be finite
	statuser, _ := m.(Statuser)
	known := bounds{problem: p, method: m, settings: s}
	opt, _ := m.(optimality)
	var stats Stats
	status, err := interrupted(ctx, limited)
	for status == NotTerminated {
		m.Step(&loc, &stats)
		if stats.Iterations++; stats.Iterations == 1 {
			known.size = math.Max(norm(x0), norm(loc.X))
		}
		done := known.meets(opt, &loc)
		full := stats.Iterations == s.Iterations
		if done || full || s.Recorder != nil || stats.Iterations%finiteEvery == 0 || math.IsNaN(loc.Residual) {
			if !finite(loc.X) || math.IsNaN(loc.Residual) {
				status, err = Failure, ErrNaN
				break
			}
			copy(last, loc.X)
		}
		if s.Recorder != nil {
			stats.Runtime = time.Since(start)
			if err = s.Recorder.Record(&loc, &stats); err != nil {
				status = Failure
				break
			}
		}
		if done {
			status = Converged
			break
		}
		if statuser != nil {
			if status, err = statuser.Status(); status != NotTerminated || err != nil {
				switch {
				case err != nil && status != Infeasible && status != Unbounded:
					status = Failure
				case err != nil:
				case status == Converged:
					status = Stalled
				case status == Infeasible || status == Unbounded:
					err = status.Err()
				}
				break
			}
		}
		if full {
			status = IterationLimit
			break
		}
		status, err = interrupted(ctx, limited)
	}
	if !finite(loc.X) { // a method that ended by itself between two scans
		if err == nil {
			status, err = Failure, ErrNaN
		}
		copy(loc.X, last)
		loc.Residual = math.NaN()
	}
	res := known.result(opt, loc, stats, status)
	if math.IsNaN(res.Value) && err == nil {
		res.Status, err = Failure, fmt.Errorf("%w: the objective at X", ErrNaN)
	}
	res.Runtime = time.Since(start)
	return res, err
}

// interrupted reports whether ctx is done, or limited, which is ctx with the runtime limit.
func interrupted(ctx, limited context.Context) (Status, error) {
	switch {
	case limited.Err() == nil:
		return NotTerminated, nil
	case ctx.Err() != nil:
		return Cancelled, ctx.Err()
	}
	return RuntimeLimit, nil
}

// checked returns s with the defaults in place of zeros.
func (s Settings) checked() (*Settings, error) {
	switch {
	case s.Iterations < 0:
		return nil, invalid("Iterations = %d, want a positive number or 0 for %d", s.Iterations, defaultIterations)
	case !(s.Relative >= 0) || math.IsInf(s.Relative, 1):
		return nil, invalid("Relative = %v, want a positive finite number, or 0 for %v if Tolerance and Gap are 0 too",
			s.Relative, defaultRelative)
	case math.IsNaN(s.Tolerance) || math.IsInf(s.Tolerance, 1):
		return nil, invalid("Tolerance = %v, want a positive finite number, 0 not to look at the residual, or a negative "+
			"number to run to another limit", s.Tolerance)
	case !(s.Gap >= 0) || math.IsInf(s.Gap, 1):
		return nil, invalid("Gap = %v, want a positive finite number, or 0 not to look at it", s.Gap)
	case s.Runtime < 0:
		return nil, invalid("Runtime = %v, want a positive duration or 0 for no limit", s.Runtime)
	}
	s.Iterations = cmp.Or(s.Iterations, defaultIterations)
	if s.Relative == 0 && s.Tolerance == 0 && s.Gap == 0 {
		s.Relative = defaultRelative
	}
	if s.Src == nil {
		var seed [32]byte
		for i := range seed {
			seed[i] = byte(rand.Uint32())
		}
		s.Src = rand.NewChaCha8(seed)
	}
	return &s, nil
}

// check returns an error if no method can start from x0.
func (p Problem) check(x0 []float64) error {
	if len(x0) == 0 {
		return unfit("x0 is empty, want a point of the problem's dimension")
	}
	for i, v := range x0 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: x0[%d] is not finite, want a finite starting point", ErrNaN, i)
		}
	}
	if f, ok := p.F.(Funcs); ok && (f.F == nil || f.G == nil) {
		return unfit("Funcs: F or G is nil, want a function and its gradient")
	}
	if d, ok := dimension(p.F); ok && d != len(x0) {
		return unfit("x0 has %d entries, want %d, the dimension of F", len(x0), d)
	}
	image := len(x0)
	if p.K != nil {
		m, d := p.K.Dims()
		if d != len(x0) {
			return unfit("x0 has %d entries, want %d, the columns of K", len(x0), d)
		}
		if _, ok := p.K.(*dense); !ok { // its norm is finite, and costs more than a solve
			if norm := p.K.Norm(); !(norm >= 0) || math.IsInf(norm, 1) {
				return unfit("K.Norm() = %v, want a finite number of at least ‖K‖₂", norm)
			}
		}
		image = m
	}
	for _, part := range []struct {
		name string
		op   prox.Operator
		dim  int
	}{{"G", p.G, len(x0)}, {"H", p.H, image}} {
		if part.op == nil {
			continue
		}
		if err := prox.Check(part.op, part.dim); err != nil {
			return unfit("%s: %w", part.name, err)
		}
	}
	return nil
}

// dimension returns the number of parameters of f, if it is known.
func dimension(f Smooth) (d int, ok bool) {
	switch f := f.(type) {
	case interface{ dim() (int, bool) }:
		return f.dim()
	case interface{ Dim() int }:
		return f.Dim(), true
	}
	return 0, false
}

// finite reports whether no entry of x is NaN or infinite. A finite sum proves that; a sum that is
// not finite may have overflowed, so entries are checked one by one.
func finite(x []float64) bool {
	if s := floats.Sum(x); s-s == 0 {
		return true
	}
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}

// zero is the Smooth and the Operator that a nil field of Problem means.
type zero struct{}

func (zero) Func([]float64) float64           { return 0 }
func (zero) Smoothness() float64              { return 0 }
func (zero) Grad(dst, _ []float64)            { clear(dst) }
func (zero) Prox(dst, x []float64, _ float64) { copy(dst, x) }

func (zero) Coordinate(int) (l1, l2, lo, hi float64) {
	return 0, 0, math.Inf(-1), math.Inf(1)
}

func smooth(f Smooth) Smooth                 { return cmp.Or[Smooth](f, zero{}) }
func operator(g prox.Operator) prox.Operator { return cmp.Or[prox.Operator](g, zero{}) }

// funcGrad stores ∇f(x) in dst and returns f(x).
func funcGrad(f Smooth, dst, x []float64) float64 {
	if both, ok := f.(FuncGrader); ok {
		return both.FuncGrad(dst, x)
	}
	f.Grad(dst, x)
	return f.Func(x)
}

// sum returns g + h as one operator where its proximal map is known.
func (p Problem) sum() (prox.Operator, bool) {
	if p.K != nil {
		return nil, false
	}
	psi, err := prox.Sum(p.G, p.H)
	return psi, err == nil
}

// terms returns the number that a full gradient adds to Stats.GradTerms.
func terms(f Smooth) int {
	if s, ok := f.(FiniteSum); ok {
		return s.Len()
	}
	return 1
}

// convexity returns the declared μ, 0 if none.
func convexity(f Smooth) float64 {
	if c, ok := f.(Convex); ok {
		if mu := c.Convexity(); mu > 0 && !math.IsInf(mu, 1) {
			return mu
		}
	}
	return 0
}

// relaxation returns lambda, or 1 for 0, and refuses numbers outside (0, limit).
func relaxation(field string, lambda, limit float64) (float64, error) {
	if !(lambda >= 0) || lambda >= limit {
		return 0, invalid("%s = %v, want a number in (0, %v), or 0 for 1", field, lambda, limit)
	}
	return cmp.Or(lambda, 1), nil
}

// separation returns ‖a − b‖₂.
func separation(a, b []float64) float64 { return floats.Distance(a, b, 2) }

// norm returns ‖x‖₂.
func norm(x []float64) float64 { return floats.Norm(x, 2) }

// resize returns a slice of length n, reusing s where it is large enough. Its
// content is unspecified.
func resize[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s[:n]
	}
	return make([]T, n)
}

// Status is the reason why a solve stopped.
type Status int

// Reasons why a solve stopped; NotTerminated means that it goes on.
const (
	NotTerminated  Status = iota
	Converged             // X met one of Settings.Relative, Tolerance and Gap
	IterationLimit        // Settings.Iterations were done
	RuntimeLimit          // Settings.Runtime was spent
	Cancelled             // the context was cancelled
	Failure               // a value was NaN, or a Recorder or the method returned an error
	Stalled               // rounding allows no progress, and X does not meet the setting
	Infeasible            // no point satisfies the constraints; Result.Dual is the certificate
	Unbounded             // the objective has no lower bound; Result.X is far along its descent, or the direction
)

// early holds the errors of the statuses that end a solve early.
var early = map[Status]error{
	IterationLimit: errors.New("splitting: maximum number of iterations reached"),
	RuntimeLimit:   errors.New("splitting: maximum runtime reached"),
	Cancelled:      errors.New("splitting: context cancelled"),
	Failure:        errors.New("splitting: termination ended in failure"),
	Stalled:        errors.New("splitting: rounding allows no further progress"),
	Infeasible:     ErrInfeasible,
	Unbounded:      ErrUnbounded,
}

// String returns the name of the constant.
func (s Status) String() string {
	return name("status", int(s), "NotTerminated", "Converged", "IterationLimit", "RuntimeLimit", "Cancelled", "Failure",
		"Stalled", "Infeasible", "Unbounded")
}

// name returns the name of the constant i.
func name(kind string, i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("invalid %s %d", kind, i)
	}
	return names[i]
}

// Early returns whether the solve ended before X met the setting.
func (s Status) Early() bool { return s.Err() != nil }

// Err returns the error of an early ending, nil if Early returns false.
func (s Status) Err() error { return early[s] }
