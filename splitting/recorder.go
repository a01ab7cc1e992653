package splitting

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
)

// TracePoint is what a Trace keeps of an iteration.
type TracePoint struct {
	Stats
	Residual float64
	Value    float64 // Trace.Func at X, 0 if that is nil
}

// Trace is a Recorder that keeps Stats, residual and value of every iteration
// it is shown. Wrapped in Every or LogSpaced it keeps some.
//
// Not private: where f depends on private records, so does all of it.
type Trace struct {
	// Func is evaluated at X, Problem.Func for instance; nil means 0.
	Func   func(x []float64) float64
	Points []TracePoint
}

// Printer is a Recorder that prints a line for every iteration it is shown:
// iterations, gradients of terms, proximal maps, seconds, residual and value.
//
// Not private: where f depends on private records, so does all of it.
type Printer struct {
	// Writer receives the lines; nil means os.Stdout.
	Writer io.Writer
	// Func is evaluated at X, Problem.Func for instance; nil leaves the column out.
	Func func(x []float64) float64
}

var (
	_ Recorder = (*Trace)(nil)
	_ Recorder = (*Printer)(nil)
)

// Init forgets the points of an earlier solve.
func (t *Trace) Init() error {
	t.Points = t.Points[:0]
	return nil
}

// Record adds a point.
func (t *Trace) Record(loc *Location, stats *Stats) error {
	p := TracePoint{Stats: *stats, Residual: loc.Residual}
	if t.Func != nil {
		p.Value = t.Func(loc.X)
	}
	t.Points = append(t.Points, p)
	return nil
}

func (p *Printer) writer() io.Writer { return cmp.Or[io.Writer](p.Writer, os.Stdout) }

// Init prints the head of the table. The error is that of the Writer.
func (p *Printer) Init() error {
	head := fmt.Sprintf("%10s %12s %12s %10s %12s", "iterations", "terms", "proxes", "seconds", "residual")
	if p.Func != nil {
		head += fmt.Sprintf(" %22s", "value")
	}
	_, err := fmt.Fprintln(p.writer(), head)
	return err
}

// Record prints a line. The error is that of the Writer.
func (p *Printer) Record(loc *Location, stats *Stats) error {
	line := fmt.Sprintf("%10d %12d %12d %10.3g %12.4g", stats.Iterations, stats.GradTerms, stats.Proxes, stats.Runtime.Seconds(), loc.Residual)
	if p.Func != nil {
		line += fmt.Sprintf(" %22.15g", p.Func(loc.X))
	}
	_, err := fmt.Fprintln(p.writer(), line)
	return err
}

// Every returns a Recorder that shows r every n-th iteration; n < 1 means 1. It
// panics if r is nil.
func Every(n int, r Recorder) Recorder {
	return newSieve(r, func(k int) int { return k + max(n, 1) })
}

// LogSpaced returns a Recorder that shows r about perDecade iterations of each
// decade, 1, 2, 5, 10, 22, 46, 100, … for 3; perDecade < 1 means 1. The last
// iteration is shown only if it is one of them: the Result tells of it. It
// panics if r is nil.
func LogSpaced(perDecade int, r Recorder) Recorder {
	ratio := math.Pow(10, 1/float64(max(perDecade, 1)))
	return newSieve(r, func(k int) int {
		if float64(k)*ratio < float64(k)+1 {
			return k + 1
		}
		// The first power of the ratio that rounds to more than k.
		for p := math.Floor(math.Log(float64(k)) / math.Log(ratio)); ; p++ {
			if v := math.Round(math.Pow(ratio, p)); v > float64(k) {
				return int(math.Min(v, math.MaxInt32))
			}
		}
	})
}

// sieve passes some iterations on to the recorder r.
type sieve struct {
	r    Recorder
	next func(k int) int // the iteration to pass on after the k-th
	at   int
}

func newSieve(r Recorder, next func(k int) int) Recorder {
	if r == nil {
		panic("splitting: nil Recorder")
	}
	return &sieve{r: r, next: next}
}

// Init calls that of r.
func (s *sieve) Init() error {
	s.at = s.next(0)
	return s.r.Init()
}

// Record shows r an iteration whose turn it is.
func (s *sieve) Record(loc *Location, stats *Stats) error {
	if stats.Iterations < s.at {
		return nil
	}
	s.at = s.next(stats.Iterations)
	return s.r.Record(loc, stats)
}
