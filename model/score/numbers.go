// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/table"
)

// paired reports how the accuracy and the log loss of two models differ on the same records.
func (d *drawn) paired(out *Scores) {
	c, noise := d.values[blockPairs], d.p.block(blockPairs).variance()
	names := []string{"accuracy difference"}
	if d.p.subject.probability {
		names = append(names, "log loss difference")
	}
	n, varN, ok := d.total(out, floats.Sum(c[:4]), 4*noise)
	if !ok {
		out.withhold(names...)
		return
	}
	diff := (c[1] - c[2]) / n
	sampling := max((c[1]+c[2])/n-diff*diff, 2/n) / n
	sampling = lessInside(sampling, d.inside(blockPairs, [4]float64{0, 1, -1, 0}, n), n)
	out.Metrics = append(out.Metrics, metric(names[0], diff, sampling, (2*noise+diff*diff*varN)/(n*n), -1, 1))
	if d.p.subject.probability {
		out.Metrics = append(out.Metrics, d.difference(names[1], 1, n, varN))
	}
}

// difference returns the mean difference of two losses, each difference in [−1, 1], times a scale.
func (d *drawn) difference(name string, scale, n, varN float64) Metric {
	v := d.values[blockDiff][0] / n
	noise := math.Sqrt(d.p.block(blockDiff).variance() + varN)
	square := 1 - (d.values[blockDiff][1]-noise)/n // and a deviation of its noise
	sampling := max(min(square, 1)-v*v, 0.25/n) / n
	privacy := (d.p.block(blockDiff).variance() + v*v*varN) / (n * n)
	return metric(name, scale*v, scale*scale*sampling, scale*scale*privacy, -scale, scale)
}

// numbers reports the metrics of a label that is a number. Errors are shares of the range W of the
// label; those above the cap c, which follows from the released sizes of errors, count as c.
func (d *drawn) numbers(out *Scores) {
	h, noise := d.values[blockErrors], d.p.block(blockErrors).variance()
	cells := float64(len(h))
	n, varN, ok := d.total(out, floats.Sum(h), cells*noise)
	tail, count := make([]float64, len(sizes)), 0.0 // of errors from sizes[k] on
	for k := len(sizes) - 1; k >= 0; k-- {
		count += h[k+1]
		tail[k] = count
	}
	deviation := func(k int) float64 { return math.Sqrt(noise * float64(len(sizes)-k)) }
	d.cap = leastCap
	for d.cap < len(sizes)-1 && tail[d.cap] > 2*deviation(d.cap)+max(n, 0)/500 {
		d.cap++
	}
	for i, k := range d.p.blocks {
		if k.Name == blockCapped || k.Name == blockDiff {
			d.add(i, d.sums(k.Name))
		}
	}
	lo, hi := d.p.subject.m.labelRange()
	w, c := hi-lo, sizes[d.cap]
	out.Cap = c * w
	paired := d.p.subject.against != nil
	names := []string{"RMSE", "MAE", "R²", "larger errors", "RMSE at most"}
	if paired {
		names = []string{"squared error difference"}
	}
	if !ok {
		out.withhold(names...)
		return
	}
	if paired {
		out.Metrics = append(out.Metrics, d.difference(names[0], c*c*w*w, n, varN))
		return
	}
	s := d.values[blockCapped]
	v := d.p.block(blockCapped).variance()
	square, mean := max(s[0]*c*c/n, 1e-12), max(s[1]*c/n, 0)
	sampling := max(min(3*square*square, c*c*square)-square*square, 0) / n
	privacy := v*c*c*c*c/(n*n) + square*square*varN/(n*n)
	root := rootMetric(names[0], square, sampling, privacy)
	mae := metric(names[1], mean, max(square-mean*mean, 0)/n, (v*c*c+mean*mean*varN)/(n*n), 0, 1)
	larger := metric(names[3], tail[d.cap]/n, shareVariance(tail[d.cap]/n, n), (noise*float64(len(sizes)-d.cap)+
		tail[d.cap]*tail[d.cap]/(n*n)*varN)/(n*n), 0, 1)
	explained := d.explained(square, sampling, v*c*c*c*c/(n*n), n, varN)
	more, _ := d.beyond(h, c)
	if more *= (1 - explained.Value) / (n * square); explained.Withheld == "" && more > explained.StdErr {
		explained.Bound = more
	}
	out.Metrics = append(out.Metrics, scaled(root, w), scaled(mae, w), explained,
		larger, d.atMost(h, w, c, square, sampling+privacy, n))
}

// rootMetric returns the root of a mean square, whose interval is the root of that of the square.
func rootMetric(name string, square, sampling, privacy float64) Metric {
	half := quantile95 * math.Sqrt(sampling+privacy)
	m := Metric{Name: name, Value: math.Sqrt(square)}
	m.Interval[0], m.Interval[1] = math.Sqrt(max(square-half, 0)), math.Sqrt(square+half)
	if !(m.Interval[1]-m.Interval[0] < 1) {
		return withheld(name, noInformation)
	}
	slope := 2 * m.Value
	if m.Interval[0] == 0 { // the linearized error of a root near 0 explodes
		slope = max(slope, quantile95*math.Sqrt(sampling+privacy)/m.Interval[1])
	}
	m.Interval[1] = min(m.Interval[1], 1)
	m.Sampling, m.Privacy = math.Sqrt(sampling)/slope, math.Sqrt(privacy)/slope
	m.StdErr = math.Hypot(m.Sampling, m.Privacy)
	return m
}

// scaled returns a metric in other units.
func scaled(m Metric, w float64) Metric {
	for _, v := range []*float64{&m.Value, &m.StdErr, &m.Sampling, &m.Privacy, &m.Interval[0], &m.Interval[1]} {
		*v *= w
	}
	return m
}

// explained returns R² of the capped errors: 1 − 4m/v, where v is the variance of the label on
// [−1, 1].
func (d *drawn) explained(square, sampling, privacy, n, varN float64) Metric {
	const name = "R²"
	t, noise := d.values[blockLabels], d.p.block(blockLabels).variance()/(n*n)
	mean := t[0] / n
	v := t[1]/n - mean*mean
	noise *= 1 + 4*mean*mean // of v, at a known number of records
	if !(v > leastDeviations*math.Sqrt(noise)) {
		return withheld(name, "the labels vary too little to tell from noise")
	}
	slope, share := 4*square/(v*v), 4/v
	sampling = share*share*sampling + slope*slope*0.8*v*v/n
	privacy = share*share*privacy + slope*slope*(noise+mean*mean*mean*mean*varN/(n*n))
	m := metric(name, 1-4*square/v, sampling, privacy, math.Inf(-1), 1)
	if m.Withheld == "" && !(m.StdErr < 1) {
		return withheld(name, noInformation)
	}
	return m
}

// beyond returns the most by which the squares of errors above the cap exceed its square, added up,
// and the sum of the squared weights of cells in it.
func (d *drawn) beyond(h []float64, c float64) (extra, weights float64) {
	for k := d.cap + 1; k < len(h); k++ {
		upper := 1.0
		if k < len(sizes) {
			upper = sizes[k]
		}
		x := upper*upper - c*c
		extra += h[k] * x
		weights += x * x
	}
	return extra, weights
}

// atMost returns an upper bound on the root of the mean square of all errors: those above the cap
// count with the upper ends of their cells, plus 1.96 deviations.
func (d *drawn) atMost(h []float64, w, c, square, variance, n float64) Metric {
	const name = "RMSE at most"
	extra, weights := d.beyond(h, c)
	extra += quantile95 * math.Sqrt(d.p.block(blockErrors).variance()*weights)
	bound := min(math.Sqrt(max(square+quantile95*math.Sqrt(variance)+max(extra, 0)/n, 0)), 1)
	if !(bound < 1) {
		return withheld(name, noInformation)
	}
	return Metric{Name: name, Value: bound * w, Interval: [2]float64{0, bound * w}}
}

// Forecast returns what the noise alone is expected to add to the standard errors of a score of n
// records, at the stated share of the second class: an accuracy of 85 % and, for AUC, scores of two
// normal laws 1.6 deviations apart. n is Records of the options if that is positive.
func (p *Plan) Forecast(positives float64) []Metric {
	n := float64(p.options.Records)
	if !p.made() || n == 0 || !(positives > 0 && positives < 1) {
		return nil
	}
	if p.subject.kind != table.Binary || p.subject.against != nil || p.options.AccuracyOnly {
		name := "accuracy"
		if p.subject.kind == table.Range {
			name = "mean error, as a share of the range"
		}
		return []Metric{{Name: name, Privacy: p.accuracyNoise() / n}}
	}
	e := p.cells(p.zeros())
	for k := range numCells {
		for class, share := range []float64{1 - positives, positives} {
			below := func(edge int) float64 { // P(p < edge) in the class
				switch edge {
				case -1:
					return 0
				case numCells - 1:
					return 1
				}
				s := (logOdds(probabilities[edge]) - logOdds(positives)) / 1.6
				return 0.5 * math.Erfc(-(s-1.6*(float64(class)-0.5))/math.Sqrt2)
			}
			e.h[class*numCells+k] = n * share * (below(k) - below(k-1))
		}
	}
	d := &drawn{p: p, values: p.zeros()}
	if p.subject.probability {
		d.values[blockLoss][0] = 0.35 / mostLoss * n
	}
	varN := 0.0
	if p.cert.Relation == dp.AddRemove {
		varN = e.variance(ones(len(e.h)))
	}
	_, variance := p.accuracy(e, n, varN)
	out := []Metric{{Name: "accuracy", Privacy: math.Sqrt(variance)}, d.balanced(e), d.curve(&Scores{}, e)}
	if p.subject.probability {
		out = append(out, d.logLoss(e, n, varN))
	}
	for i, m := range out {
		out[i] = Metric{Name: m.Name, Privacy: m.Privacy, Withheld: m.Withheld}
	}
	return out
}
