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

// Axis is the name of what a picture shows. Odds says that values are logarithms of odds, so that
// the ticks say by how much odds are multiplied or divided.
type Axis struct {
	Name string
	Odds bool
}

// multipliers of odds with round names, the finest first.
var multipliers = [][]float64{
	{1.01, 1.02, 1.03}, {1.02, 1.05, 1.1}, {1.05, 1.1, 1.15, 1.2}, {1.1, 1.2, 1.3, 1.4, 1.5}, {1.2, 1.5, 2},
	{1.5, 2, 3, 4}, {2, 4, 8, 16}, {3, 10, 30, 100}, {4, 16, 64, 256}, {10, 100, 1000, 1e4}, {100, 1e4, 1e6, 1e8},
	{1e4, 1e8, 1e12, 1e16},
}

// ticks returns the places of about n ticks, and how to name them.
func (a Axis) ticks(lo, hi float64, n int) ([]float64, func(float64) string) {
	if !a.Odds {
		return ticks(lo, hi, n), label
	}
	near := 0.7 * (hi - lo) / float64(n) // so that names do not touch
	for _, list := range multipliers {
		if max(-lo, hi) > 1.6*math.Log(list[len(list)-1]) { // at most about a third without ticks
			continue
		}
		at, last := []float64{0}, 0.0
		for _, m := range list {
			v := math.Log(m)
			if v-last < near {
				continue
			}
			if last = v; v <= hi+1e-9 { // an end that is a tick survives rounding
				at = append(at, v)
			}
			if -v >= lo-1e-9 {
				at = append(at, -v)
			}
		}
		return at, times
	}
	return ticks(lo, hi, n), func(v float64) string { return "× e^" + label(v) }
}

func times(v float64) string {
	factor := strconv.FormatFloat(math.Exp(math.Abs(v)), 'g', 3, 64)
	switch {
	case factor == "1":
		return "same"
	case v < 0:
		return "÷ " + factor
	default:
		return "× " + factor
	}
}

// Detection draws the most that a test can detect against its false alarms: lines between corners,
// whose false alarms increase from 0 to 1. It marks one place.
func Detection(power func(falseAlarms float64) float64, corners []float64, marked float64, who string) template.HTML {
	p := &picture{}
	x, y := p.frame(300, unit, unit, fifths, fifths, "false alarms", who+" noticed, at most", share, share)
	p.line("guess", x.at(0), y.at(0), x.at(1), y.at(1))
	var curve []float64
	for _, alpha := range corners {
		curve = append(curve, x.at(alpha), y.at(power(alpha)))
	}
	p.area("band k0", append(append([]float64{x.at(0), y.at(0)}, curve...), x.at(1), y.at(0))...)
	p.line("curve k0", curve...)
	p.dot(x.at(marked), y.at(power(marked)), "k0")
	p.line("zero", x.at(marked), y.at(power(marked)), x.at(0.31), y.at(0.11))
	p.text(x.at(0.32), y.at(0.09), "tick halo", fmt.Sprintf("%s false alarms: %s %% noticed", share(marked),
		strconv.FormatFloat(100*power(marked), 'g', 3, 64)))
	p.text(x.at(0.64), y.at(0.48), "tick halo", "guessing blindly")
	return p.finish(300, "The most that somebody can notice, against false alarms")
}

// Forests draws estimates with their intervals on one axis, side by side if they are many.
func Forests(values []Value, axis Axis, title string) (out []Figure) {
	lo, hi := extent([]Series{{Values: values}})
	half := len(values)
	if half > 13 {
		half = (half + 1) / 2
	}
	for from := 0; from < len(values); from += half {
		name := title
		if from > 0 {
			name = "… and"
		}
		svg := forest(values[from:min(from+half, len(values))], lo, hi, axis, title)
		out = append(out, Figure{Caption: name, SVG: svg})
	}
	return out
}

func forest(values []Value, lo, hi float64, axis Axis, title string) template.HTML {
	const row, top = 30.0, 6.0
	bottom := top + row*float64(len(values))
	p := &picture{}
	x := scale{lo, hi, 22, width - 22}
	at, name := axis.ticks(lo, hi, 6)
	for _, v := range at {
		p.text(x.at(v), bottom+15, "tick mid", name(v))
	}
	p.text(width/2, bottom+33, "axis mid", axis.Name)
	for i, v := range values {
		y := top + row*float64(i) + 22
		p.text(2, y-10, "tick name", short(v.Name, 52))
		for _, v := range at { // beside the bars only: no line crosses a name
			p.line("grid", x.at(v), y-5, x.at(v), y+5)
		}
		p.line("zero", x.at(0), y-5, x.at(0), y+5)
		p.interval(x, v, y, "k0")
	}
	return p.finish(bottom+40, title)
}

// interval draws an estimate with its interval. The interval has ends, which show beside the dot
// however short it is, or arrows where it leaves the picture; without one, a bar begins at 0.
func (p *picture) interval(x scale, v Value, y float64, class string) {
	from, to := v.Lo, v.Hi
	if v.Unidentified {
		from, to = math.Inf(-1), math.Inf(1)
	}
	if !(to > from) {
		p.line("bar "+class, x.at(0), y, x.at(v.Mid), y)
		p.dot(x.at(v.Mid), y, class)
		return
	}
	p.line("bar "+class, x.at(from), y, x.at(to), y)
	for _, end := range []struct{ v, tip float64 }{{from, 5}, {to, -5}} {
		if at := x.at(end.v); end.v < x.lo || end.v > x.hi {
			p.line("bar "+class, at+end.tip, y-4, at, y, at+end.tip, y+4)
		} else {
			p.line("bar "+class, at, y-5, at, y+5)
		}
	}
	p.dot(x.at(v.Mid), y, class)
}

func short(s string, n int) string {
	if utf8.RuneCountInString(s) > n {
		return string([]rune(s)[:n-1]) + "…"
	}
	return s
}

// Line draws the effect of a number between the ends of its range. A third value of a series is the
// effect of a missing number, which stands to the right.
func Line(from, to float64, series []Series, name string, axis Axis) template.HTML {
	p := &picture{}
	lo, hi := extent(series)
	n := key(p, series)
	x, y := scale{lo: from, hi: to}, scale{lo: lo, hi: hi}
	gap := len(series[0].Values) > 2
	if gap { // the number ends where the strip of missing values begins
		x.hi += 0.25 * (to - from)
	}
	at, show := axis.ticks(lo, hi, 5)
	x, y = p.frame(210, x, y, ticks(from, to, 5), at, name, axis.Name, label, show)
	if gap {
		p.text(x.to-18, y.from+16, "tick mid", "missing")
		p.line("zero", x.at(to)+8, y.from, x.at(to)+8, y.to)
	}
	for k, s := range series {
		a, b := s.Values[0], s.Values[1]
		mid := (from + to) / 2
		centre := (a.Mid + b.Mid) / 2
		if a.Hi > a.Lo {
			p.area("band "+class(k), x.at(from), y.at(a.Lo), x.at(mid), y.at(centre), x.at(to), y.at(b.Lo), x.at(to),
				y.at(b.Hi), x.at(mid), y.at(centre), x.at(from), y.at(a.Hi))
		}
		p.line("curve "+class(k), x.at(from), y.at(a.Mid), x.at(to), y.at(b.Mid))
		if gap {
			v, at := s.Values[2], x.to-36+36*(float64(k)+0.5)/float64(len(series))
			p.line("bar "+class(k), at, y.at(v.Lo), at, y.at(v.Hi))
			p.dot(at, y.at(v.Mid), class(k))
		}
	}
	return p.finish(210+n, "Effect of "+name)
}

// Levels draws the effects of levels or bins, one below the other.
func Levels(series []Series, name string, axis Axis) template.HTML {
	p := &picture{}
	lo, hi := extent(series)
	const left, top = 130.0, 10.0
	row := max(22, 9*float64(len(series)))
	bottom := top + row*float64(len(series[0].Values))
	x := scale{lo, hi, left, width - 22}
	at, show := axis.ticks(lo, hi, 4)
	for _, v := range at {
		p.line("grid", x.at(v), top, x.at(v), bottom)
		p.text(x.at(v), bottom+15, "tick mid", show(v))
	}
	p.line("zero", x.at(0), top, x.at(0), bottom)
	p.text((x.from+x.to)/2, bottom+32, "axis mid", axis.Name)
	for i, v := range series[0].Values {
		y := top + row*(float64(i)+0.5)
		p.text(left-6, y+4, "tick end", short(v.Name, 19))
		for k, s := range series {
			p.interval(x, s.Values[i], y+0.75*row*((float64(k)+0.5)/float64(len(series))-0.5), class(k))
		}
	}
	fmt.Fprintf(&p.b, `<g transform="translate(0 %.0f)">`, bottom+40-210)
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
	x, y := p.frame(330, unit, unit, fifths, fifths, "false alarms", "rightly noticed, with a band of 95 %", share, share)
	p.line("guess", x.at(0), y.at(0), x.at(1), y.at(1))
	curve, upper := []float64{x.at(1), y.at(1)}, []float64{x.at(1), y.at(1)}
	lower := []float64{}
	for _, o := range points {
		curve = append(curve, x.at(o.X), y.at(o.Y))
		upper = append(upper, x.at(o.X-1.96*o.XErr), y.at(o.Y+1.96*o.YErr))
		lower = append([]float64{x.at(o.X + 1.96*o.XErr), y.at(o.Y - 1.96*o.YErr)}, lower...)
	}
	p.area("band k0", append(append(upper, x.at(0), y.at(0)), lower...)...)
	p.line("curve k0", append(curve, x.at(0), y.at(0))...)
	return p.finish(330, "ROC curve: right alarms against false alarms, with a band of 95 %")
}

// Calibration draws the share of positives against the probability that the model states.
func Calibration(cells []Cell) template.HTML {
	p := &picture{}
	x, y := p.frame(330, unit, unit, fifths, fifths, "chance that the model states", "share that came true", share, share)
	p.line("guess", x.at(0), y.at(0), x.at(1), y.at(1))
	for _, c := range cells {
		mid := (c.From + c.To) / 2
		p.line("bar k0", x.at(mid), y.at(c.Lo), x.at(mid), y.at(c.Hi))
		p.line("curve k0", x.at(c.From), y.at(c.Mid), x.at(c.To), y.at(c.Mid))
	}
	return p.finish(330, "Calibration: share of positives against the stated probability, with bars of 95 %")
}
