// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Value is an estimate with its interval, which is the point Mid without one.
type Value struct {
	Name         string
	Lo, Mid, Hi  float64
	Unidentified bool // the interval is the whole line
}

// Series is the effect of a column on one class; Name is "" if there is only one.
type Series struct {
	Name   string
	Values []Value // of the levels or bins; of a number at the ends of its range
}

// Point is a point of a curve with error bars.
type Point struct{ X, Y, XErr, YErr float64 }

// Cell is the share of positives among the records with a probability in [From, To].
type Cell struct{ From, To, Lo, Mid, Hi float64 }

var unit = scale{lo: 0, hi: 1}
var fifths = []float64{0, 0.2, 0.4, 0.6, 0.8, 1}

func share(v float64) string { return strconv.FormatFloat(100*v, 'f', 0, 64) + " %" }

// Detection draws the most that a test can detect against its false alarms: lines between corners,
// whose false alarms increase from 0 to 1.
func Detection(power func(falseAlarms float64) float64, corners, marked []float64) template.HTML {
	p := &picture{}
	x, y := p.frame(330, unit, unit, fifths, fifths, "false alarms", "detected, at most", share)
	p.line("guess", x.at(0), y.at(0), x.at(1), y.at(1))
	var curve []float64
	for _, alpha := range corners {
		curve = append(curve, x.at(alpha), y.at(power(alpha)))
	}
	p.area("band k0", append(append([]float64{x.at(0), y.at(0)}, curve...), x.at(1), y.at(0))...)
	p.line("curve k0", curve...)
	for _, a := range marked {
		p.dot(x.at(a), y.at(power(a)), "k0")
	}
	p.text(x.at(0.62), y.at(0.5), "tick", "guessing blindly")
	return p.finish(330, "The most that a test can detect, against its false alarms")
}

// Forest draws estimates with their intervals on one axis.
func Forest(values []Value, axis, title string) template.HTML {
	const row, top = 30.0, 24.0
	lo, hi := extent([]Series{{Values: values}})
	height := top + row*float64(len(values)) + 40
	p := &picture{}
	x := scale{lo, hi, 14, width - 14}
	bottom := height - 36
	for _, v := range ticks(lo, hi, 6) {
		p.line("grid", x.at(v), top, x.at(v), bottom)
		p.text(x.at(v), bottom+15, "tick mid", label(v))
	}
	p.line("zero", x.at(0), top-4, x.at(0), bottom)
	p.text(width/2, height-4, "axis mid", axis)
	for i, v := range values {
		y := top + row*float64(i) + 22
		p.text(2, y-9, "tick halo", short(v.Name, 52))
		from, to := v.Lo, v.Hi
		if v.Unidentified {
			from, to = math.Inf(-1), math.Inf(1)
		}
		if to > from {
			p.line("bar k0", x.at(from), y, x.at(to), y)
			if from < lo {
				p.line("bar k0", x.from+6, y-4, x.from, y, x.from+6, y+4)
			}
			if to > hi {
				p.line("bar k0", x.to-6, y-4, x.to, y, x.to-6, y+4)
			}
		} else {
			p.line("bar k0", x.at(0), y, x.at(v.Mid), y)
		}
		p.dot(x.at(v.Mid), y, "k0")
	}
	return p.finish(height, title)
}

func short(s string, n int) string {
	if utf8.RuneCountInString(s) > n {
		return string([]rune(s)[:n-1]) + "…"
	}
	return s
}

// Line draws the effect of a number between the ends of its range.
func Line(from, to float64, series []Series, name, unit string) template.HTML {
	p := &picture{}
	lo, hi := extent(series)
	n := key(p, series)
	height := 210 + n
	x, y := p.frame(210, scale{lo: from, hi: to}, scale{lo: lo, hi: hi}, ticks(from, to, 5), ticks(lo, hi, 5), name, unit,
		label)
	for k, s := range series {
		a, b := s.Values[0], s.Values[1]
		mid := (from + to) / 2
		centre := (a.Mid + b.Mid) / 2
		if a.Hi > a.Lo {
			p.area("band "+class(k), x.at(from), y.at(a.Lo), x.at(mid), y.at(centre), x.at(to), y.at(b.Lo), x.at(to),
				y.at(b.Hi), x.at(mid), y.at(centre), x.at(from), y.at(a.Hi))
		}
		p.line("curve "+class(k), x.at(from), y.at(a.Mid), x.at(to), y.at(b.Mid))
	}
	return p.finish(height, "Effect of "+name)
}

// Levels draws the effects of levels or bins, one below the other.
func Levels(series []Series, name, unit string) template.HTML {
	p := &picture{}
	lo, hi := extent(series)
	rows := len(series[0].Values)
	const left, top, row = 130.0, 10.0, 20.0
	bottom := top + row*float64(rows)
	x := scale{lo, hi, left, width - 12}
	for _, v := range ticks(lo, hi, 4) {
		p.line("grid", x.at(v), top, x.at(v), bottom)
		p.text(x.at(v), bottom+15, "tick mid", label(v))
	}
	p.line("zero", x.at(0), top, x.at(0), bottom)
	p.text((x.from+x.to)/2, bottom+32, "axis mid", unit)
	for i, v := range series[0].Values {
		y := top + row*(float64(i)+0.5)
		p.text(left-6, y+4, "tick end", short(v.Name, 19))
		for k, s := range series {
			at := y + 12*(float64(k)+0.5)/float64(len(series)) - 6
			v := s.Values[i]
			if v.Hi > v.Lo {
				p.line("bar "+class(k), x.at(v.Lo), at, x.at(v.Hi), at)
			} else {
				p.line("bar "+class(k), x.at(0), at, x.at(v.Mid), at)
			}
			p.dot(x.at(v.Mid), at, class(k))
		}
	}
	shift := bottom + 40 - 210
	p.b.WriteString(fmt.Sprintf(`<g transform="translate(0 %.0f)">`, shift))
	n := key(p, series)
	p.b.WriteString("</g>")
	return p.finish(bottom+40+n, "Effect of "+name)
}

// key draws the names of the classes below y = 210 and returns the height it takes.
func key(p *picture, series []Series) float64 {
	if len(series) < 2 {
		return 0
	}
	for k, s := range series {
		y := 224 + 16*float64(k/2)
		x := 12 + 174*float64(k%2)
		p.line("curve "+class(k), x, y-4, x+18, y-4)
		p.text(x+24, y, "tick", short(s.Name, 20))
	}
	return 16*float64((len(series)+1)/2) + 10
}

func class(k int) string { return fmt.Sprintf("k%d", k%6) }

// extent returns the range of an axis that holds 0 and all estimates. Intervals that are much wider
// than most others do not squeeze them: they end in arrows, or at the edge.
func extent(series []Series) (lo, hi float64) {
	var widths []float64
	most := 0.0
	for _, s := range series {
		for _, v := range s.Values {
			most = max(most, math.Abs(v.Mid))
			widths = append(widths, v.Hi-v.Lo)
		}
	}
	if len(widths) > 0 {
		slices.Sort(widths)
		most = max(2*most, 2*widths[len(widths)/2])
	}
	for _, s := range series {
		for _, v := range s.Values {
			lo, hi = min(lo, v.Mid, max(v.Lo, -most)), max(hi, v.Mid, min(v.Hi, most))
		}
	}
	return span(lo, hi)
}

// ROC draws true against false positives with a band of 95 %.
func ROC(points []Point) template.HTML {
	p := &picture{}
	x, y := p.frame(330, unit, unit, fifths, fifths, "false positives", "true positives, with a band of 95 %", share)
	p.line("guess", x.at(0), y.at(0), x.at(1), y.at(1))
	curve, upper, lower := []float64{x.at(1), y.at(1)}, []float64{x.at(1), y.at(1)}, []float64{}
	for _, o := range points {
		curve = append(curve, x.at(o.X), y.at(o.Y))
		upper = append(upper, x.at(o.X-1.96*o.XErr), y.at(o.Y+1.96*o.YErr))
		lower = append([]float64{x.at(o.X + 1.96*o.XErr), y.at(o.Y - 1.96*o.YErr)}, lower...)
	}
	p.area("band k0", append(append(upper, x.at(0), y.at(0)), lower...)...)
	p.line("curve k0", append(curve, x.at(0), y.at(0))...)
	return p.finish(330, "ROC curve: true positives against false positives, with a band of 95 %")
}

// Calibration draws the share of positives against the probability that the model states.
func Calibration(cells []Cell) template.HTML {
	p := &picture{}
	x, y := p.frame(330, unit, unit, fifths, fifths, "probability that the model states", "share that is positive", share)
	p.line("guess", x.at(0), y.at(0), x.at(1), y.at(1))
	for _, c := range cells {
		mid := (c.From + c.To) / 2
		p.line("bar k0", x.at(mid), y.at(c.Lo), x.at(mid), y.at(c.Hi))
		p.line("curve k0", x.at(c.From), y.at(c.Mid), x.at(c.To), y.at(c.Mid))
	}
	return p.finish(330, "Calibration: share of positives against the stated probability, with bars of 95 %")
}
