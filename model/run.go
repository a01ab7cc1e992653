package model

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/linear"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/noise"
)

// Choice is what a plan with histograms chose from its noisy outputs, in units of the
// declared bounds. It is part of the release.
type Choice struct {
	FirstClip float64 `json:"firstClip,omitzero"`
	Clip      float64 `json:"clip,omitzero"`
	// Clipped is the estimated share of records whose gradient is longer than Clip.
	Clipped float64 `json:"clipped,omitzero"`
	Signal  float64 `json:"signal,omitzero"` // ρ̂², what the ridge is tuned for
	Ridge   float64 `json:"ridge"`           // Δ of the last minimizer
	Sigma   float64 `json:"sigma"`           // noise of the last minimizer
	// OutputSigma is the standard deviation of the noise on θ itself.
	OutputSigma float64 `json:"outputSigma"`
}

// outcome is all that one run of a plan releases.
type outcome struct {
	theta   []float64
	cert    dp.Certificate
	choice  *Choice
	moments *moments
}

// run draws the noise of the plan once for p, the problem it was made for.
func (pl *Plan) run(ctx context.Context, p *erm.Problem, src rand.Source) (*outcome, error) {
	if pl.single != nil {
		rel, err := pl.single.Fit(ctx, p, src)
		if err != nil {
			return nil, err
		}
		return &outcome{theta: rel.Theta, cert: rel.Certificate}, nil
	}
	var watched *noise.Watched
	if src != nil {
		watched = noise.Watch(src)
		src = watched
	}
	out, err := pl.steps(ctx, p, src)
	if err == nil && watched != nil && watched.Err() != nil {
		return nil, watched.Err()
	}
	return out, err
}

// shift returns √w·μ, the sensitivity over the noise of a share.
func (pl *Plan) shift(share float64) float64 {
	return math.Sqrt(share) * pl.params.Sequence.Mu
}

// minimizer returns the first or the last minimizer of a sequence for a clip, 0 for none, and
// a signal energy ρ², both in units of the declared bounds:
//
//	Δ = max( β/expm1(c) − μ_r, fσ²d/(nρ²) ),  f = 1 for the first and ½ for the last
//
// With intervals the last one has the least ridge, for they undo its shrinkage.
func (pl *Plan) minimizer(last bool, clip, signal float64) (linear.Settings, linear.Step) {
	s, b := pl.params.Sequence, pl.params.Bounds
	n, d := float64(pl.params.Records), float64(pl.params.Dim)
	c, share, factor := s.FirstC, s.Shares.First, 1.0
	if last {
		c, share, factor = s.C, s.Shares.Last, 0.5
	}
	settings := pl.settings
	step := linear.Step{C: c, S: pl.shift(share), Output: pl.shift(s.Shares.Output), Ridge: linear.LeastRidge(pl.smoothness, pl.modulus, c)}
	if clip > 0 {
		settings.Clip = clip * b.Row * b.Label
		if pl.params.Intervals == nil || !last {
			sigma := clip * pl.gradients() / step.S
			step.Ridge = max(step.Ridge, factor*sigma*sigma*d/(n*signal)*b.Row*b.Row)
		}
	}
	return settings, step
}

// check returns the error that a run would end with for a public reason, so that no
// budget is charged for it: the number of records that is accounted for, which reveals no more than that
// it is exceeded, and the minimizers at both ends of the range of clips.
func (pl *Plan) check(p *erm.Problem) error {
	if n, _ := p.Data.Dims(); int64(n) > pl.params.MaxRecords {
		return prefix.Errorf("model: %w: the table has more than %d records, the most that the plan allows: "+
			"declare a larger \"records\" in the schema; a table may have four times the declared number",
			dp.ErrCondition, pl.params.MaxRecords)
	}
	if pl.single != nil {
		return nil
	}
	clips := []float64{pl.params.Sequence.Clip}
	if pl.params.Sequence.TwoStep {
		clips = []float64{leastClip, 1}
	}
	for _, clip := range clips {
		for _, last := range []bool{true, !pl.params.Sequence.TwoStep} {
			settings, step := pl.minimizer(last, clip, leastSignal)
			if err := settings.CheckStep(p, pl.cert, step); err != nil {
				return prefix.Errorf("model: %w", err)
			}
		}
	}
	return nil
}

// Ends of what is chosen from noisy outputs.
const (
	leastClip   = 0.03
	leastSignal = 0.02
)

// steps runs a sequence. Minimizers take a nil source for a secure one.
func (pl *Plan) steps(ctx context.Context, p *erm.Problem, src rand.Source) (*outcome, error) {
	f := fault.From(ctx)
	s, w := *pl.params.Sequence, pl.params.Sequence.Shares
	n, d := float64(pl.params.Records), float64(pl.params.Dim)
	direct := src // of what is no minimizer
	if direct == nil {
		direct = noise.Secure()
	}
	choice := &Choice{Clip: s.Clip, Signal: 0.08}
	if s.TwoStep {
		tau := func(share float64) float64 { return pl.pair() / pl.shift(share) * safeScale }
		labels, err := newHistogram(f, p.Data, nil, tau(w.Labels), direct)
		if err != nil {
			return nil, prefix.Errorf("model: %w", err)
		}
		square := labels.secondMoment()
		choice.FirstClip = max(0.06, quantile(labels.cdf(n), 0.9))
		settings, step := pl.minimizer(false, choice.FirstClip, max(leastSignal, square/2))
		first, _, err := settings.Run(ctx, p, pl.cert, step, src)
		if err != nil {
			return nil, err
		}
		resid, err := newHistogram(f, p.Data, first.Theta, tau(w.Residuals), direct)
		if err != nil {
			return nil, prefix.Errorf("model: %w", err)
		}
		choice.choose(resid, square, n, d, pl.gradients()/pl.shift(w.Last))
	} else if pl.params.Loss.Name != Squares {
		choice.Signal = 0
	}
	settings, step := pl.minimizer(true, choice.Clip, choice.Signal)
	last, params, err := settings.Run(ctx, p, pl.cert, step, src)
	if err != nil {
		return nil, err
	}
	choice.Ridge, choice.Sigma, choice.OutputSigma = params.Ridge, params.Sigma, params.OutputSigma
	out := &outcome{theta: last.Theta, cert: last.Certificate, choice: choice}
	if pl.params.Intervals != nil {
		if out.moments, err = pl.moments(f, p, choice.Clip, last.Theta, params, direct); err != nil {
			return nil, prefix.Errorf("model: %w", err)
		}
	}
	return out, nil
}

// safeScale multiplies scales of noise: closed forms are exact to 1e-12.
const safeScale = 1 + 1e-9

// choose takes the clip and the signal energy of the last minimizer from the histogram of
// residuals and Ê b²; tau is G/s of a gradient of norm 1.
func (c *Choice) choose(resid histogram, square, n, d, unit float64) {
	f := resid.cdf(n)
	tau := unit * math.Sqrt(d) / n
	q := min(max(1-20*tau, 0.5), 0.98)
	c.Clip = min(max(quantile(f, q), leastClip), 1)
	c.Clipped = 1 - q
	c.Signal = max(leastSignal, square/2, square-resid.secondMoment())
}

// moments releases the sums of curvatures and squared gradients at θ.
func (pl *Plan) moments(
	f *fault.Set, p *erm.Problem, clip float64, theta []float64, params linear.Params, src rand.Source,
) (*moments, error) {
	l, _ := p.Loss.(loss.Linear)
	if clip > 0 {
		l = loss.Clipped{Loss: l, Threshold: clip * pl.params.Bounds.Row * pl.params.Bounds.Label}
	}
	s := pl.params.Sequence
	most := [2]float64{params.Smoothness, params.Lipschitz * params.Lipschitz}
	var sensitivity [2]float64
	var exponent [2]int
	for k, v := range most {
		sensitivity[k], exponent[k] = sumSensitivity(v, pl.pair(), pl.params.Dim)
	}
	m := &moments{
		hessianTau: sensitivity[0] / (math.Sqrt(s.Shares.Hessian) * s.Mu) * safeScale,
		scoresTau:  sensitivity[1] / (math.Sqrt(s.Shares.Scores) * s.Mu) * safeScale,
	}
	sum, err := sums(p.Data, theta, l, most, exponent)
	if err != nil {
		return nil, err
	}
	m.hessian = releaseSum(f, sum[0], pl.params.Dim, m.hessianTau, exponent[0], src)
	m.scores = releaseSum(f, sum[1], pl.params.Dim, m.scoresTau, exponent[1], src)
	return m, nil
}
