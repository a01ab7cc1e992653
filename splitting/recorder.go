package splitting

import "math"

// TracePoint is the record of one iteration in a [Trace].
type TracePoint struct {
	Stats
	Residual float64
	Value    float64 // Trace.Func at X, 0 if that is nil
}

// Trace is a [Recorder] that keeps the [Stats], residual and value of every iteration, or with
// [LogSpaced] of some.
//
// Not private: if f depends on private records, so does every point.
type Trace struct {
	// Func is evaluated at X, for instance Problem.Func; nil means 0.
	Func   func(x []float64) float64
	Points []TracePoint
}

var _ Recorder = (*Trace)(nil)

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

// LogSpaced returns a [Recorder] that passes about perDecade iterations of each decade to r: 1, 2,
// 5, 10, 22, 46, 100, … for 3; perDecade < 1 means 1. The last iteration need not be among them;
// the [Result] reports it. It panics if r is nil.
func LogSpaced(perDecade int, r Recorder) Recorder {
	if r == nil {
		panic("splitting: nil Recorder")
	}
	return &logSpaced{r: r, ratio: math.Pow(10, 1/float64(max(perDecade, 1)))}
}

// logSpaced passes some iterations on to the recorder r.
type logSpaced struct {
	r     Recorder
	ratio float64
	at    int // the next iteration to pass on
}

// Init calls r.Init.
func (s *logSpaced) Init() error {
	s.at = 1
	return s.r.Init()
}

// Record passes the iteration to r if it is the next one, or later.
func (s *logSpaced) Record(loc *Location, stats *Stats) error {
	if stats.Iterations < s.at {
		return nil
	}
	s.at = s.after(stats.Iterations)
	return s.r.Record(loc, stats)
}

// after returns the first power of the ratio that rounds to more than k.
func (s *logSpaced) after(k int) int {
	if float64(k)*s.ratio < float64(k)+1 {
		return k + 1
	}
	for p := math.Floor(math.Log(float64(k)) / math.Log(s.ratio)); ; p++ {
		if v := math.Round(math.Pow(s.ratio, p)); v > float64(k) {
			return int(math.Min(v, math.MaxInt32))
		}
	}
}
