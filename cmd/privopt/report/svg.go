// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package report

import (
	"fmt"
	"html/template"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// width of all pictures in CSS pixels: a phone shows them without making the text smaller.
const width = 360.0

// picture collects the elements of an SVG. Colors come from classes, so that they follow the page.
type picture struct{ b strings.Builder }

func (p *picture) text(x, y float64, class, words string) {
	fmt.Fprintf(&p.b, `<text x="%.1f" y="%.1f" class="%s">%s</text>`+"\n", x, y, class, template.HTMLEscapeString(words))
}

func (p *picture) line(class string, points ...float64) {
	fmt.Fprintf(&p.b, `<polyline class="%s" points="%s"/>`+"\n", class, pairs(points))
}

func (p *picture) area(class string, points ...float64) {
	fmt.Fprintf(&p.b, `<polygon class="%s" points="%s"/>`+"\n", class, pairs(points))
}

func (p *picture) dot(x, y float64, class string) {
	fmt.Fprintf(&p.b, `<circle cx="%.1f" cy="%.1f" r="3" class="%s"/>`+"\n", x, y, class)
}

func pairs(points []float64) string {
	var b strings.Builder
	for i := 0; i+1 < len(points); i += 2 {
		fmt.Fprintf(&b, "%.1f,%.1f ", points[i], points[i+1])
	}
	return strings.TrimSpace(b.String())
}

// finish returns the picture with a title for those who cannot see it.
func (p *picture) finish(height float64, title string) template.HTML {
	title = template.HTMLEscapeString(title)
	return template.HTML(fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="%s" `+
		`viewBox="0 0 %g %.0f"><title>%[1]s</title>`+"\n%[4]s</svg>", title, width, height, p.b.String()))
}

var (
	color = regexp.MustCompile(`--(\w+): (#\w+);`)                      // the light ones stand first
	rules = regexp.MustCompile(`(?s)\.tick \{.*\.k5 \{[^}]*\} [^}]*\}`) // of the classes of pictures
)

// Sheet puts figures beside each other in an SVG that needs no page. Its colors are the light ones.
func Sheet(figures []Figure) string {
	const gap, top, height = 30, 30, 330
	css := rules.FindString(page)
	for _, c := range color.FindAllStringSubmatch(page, -1) {
		css = strings.ReplaceAll(css, "var(--"+c[1]+")", c[2])
	}
	p := &picture{}
	for i, f := range figures {
		left := gap + float64(i)*(width+gap)
		p.text(left, 18, "axis", f.Caption)
		place := fmt.Sprintf(`<svg x="%.0f" y="%d" width="%.0f" height="%d" `, left, top, width, height)
		p.b.WriteString(strings.Replace(string(f.SVG), "<svg ", place, 1) + "\n")
	}
	if len(figures) == 0 {
		p.text(gap, 18, "axis", "This score has no curves.")
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" font-family="sans-serif" `+
		`font-size="12">`+"\n<style>%s</style>\n"+`<rect width="100%%" height="100%%" fill="white"/>`+"\n%s</svg>\n",
		gap+max(1, float64(len(figures)))*(width+gap), top+height+gap, css, p.b.String())
}

// scale maps [lo, hi] to [from, to].
type scale struct{ lo, hi, from, to float64 }

// at returns the place of v, of the nearer end for a value outside.
func (s scale) at(v float64) float64 {
	v = min(max(v, s.lo), s.hi)
	return s.from + (s.to-s.from)*(v-s.lo)/(s.hi-s.lo)
}

// ticks returns round numbers in [lo, hi], about n of them.
func ticks(lo, hi float64, n int) (out []float64) {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	for _, k := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(k*step) <= float64(n) {
			step *= k
			break
		}
	}
	first := math.Ceil(lo/step - 1e-9) // an end that is a tick survives rounding
	for i := range n + 2 {
		if k := first + float64(i); k <= hi/step+1e-9 {
			out = append(out, k*step+0) // no negative 0
		}
	}
	return out
}

// label formats a tick.
func label(v float64) string {
	s := strconv.FormatFloat(v, 'g', 4, 64)
	if math.Abs(v) >= 1e4 && math.Abs(v) < 1e7 {
		s = strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strings.Replace(s, "-", "−", 1)
}

// span widens a range around 0 that is a point.
func span(lo, hi float64) (float64, float64) {
	if !(hi > lo) {
		return -1, 1
	}
	return lo, hi
}

// frame draws axes with ticks and names, and returns their scales.
func (p *picture) frame(height float64, x, y scale, xs, ys []float64, xName, yName string,
	showX, showY func(float64) string,
) (scale, scale) {
	const left, right, top, bottom = 54, 20, 26, 40
	x.from, x.to = left, width-right
	y.from, y.to = height-bottom, top
	for _, v := range xs {
		p.line("grid", x.at(v), y.from, x.at(v), y.to)
		p.text(x.at(v), y.from+16, "tick mid", showX(v))
	}
	for _, v := range ys {
		p.line("grid", x.from, y.at(v), x.to, y.at(v))
		p.text(left-6, y.at(v)+4, "tick end", showY(v))
	}
	p.text((x.from+x.to)/2, height-6, "axis mid", xName)
	p.text(4, 14, "axis", yName)
	return x, y
}
