// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"strings"

	"github.com/privopt/privopt/model"
)

// scorePlot draws the ROC curve with its band, and the calibration with error bars, as SVG. A score
// without them gives a picture of its metrics with intervals.
func scorePlot(s *model.PrivateScores) string {
	const side, gap, margin = 300.0, 90.0, 50.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" `+
		`font-size="12">`+"\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", 2*side+gap+2*margin, side+2*margin)
	panel := func(left float64, title, x, y string) (at func(u, v float64) string) {
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.0f" height="%.0f" fill="none" stroke="black"/>`+"\n", left, margin,
			side, side)
		text := func(u, v float64, turn, words string) {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle"%s>%s</text>`+"\n", u, v, turn, words)
		}
		text(left+side/2, margin-12, "", title)
		text(left+side/2, margin+side+34, "", x)
		text(left-34, margin+side/2, fmt.Sprintf(` transform="rotate(-90 %.1f %.1f)"`, left-34, margin+side/2), y)
		for _, v := range []float64{0, 0.5, 1} {
			text(left+v*side, margin+side+16, "", fmt.Sprint(v))
			text(left-16, margin+side-v*side+4, "", fmt.Sprint(v))
		}
		at = func(u, v float64) string {
			return fmt.Sprintf("%.1f,%.1f", left+side*min(max(u, 0), 1), margin+side*(1-min(max(v, 0), 1)))
		}
		fmt.Fprintf(&b, `<polyline points="%s %s" fill="none" stroke="gray" stroke-dasharray="3 3"/>`+"\n", at(0, 0),
			at(1, 1))
		return at
	}
	at := panel(margin, "ROC, band of 95 %", "false positives", "true positives")
	var curve, upper, lower []string
	for _, o := range s.ROC {
		curve = append(curve, at(o.FPR, o.TPR))
		upper = append(upper, at(o.FPR-1.96*o.FPRError, o.TPR+1.96*o.TPRError))
		lower = append([]string{at(o.FPR+1.96*o.FPRError, o.TPR-1.96*o.TPRError)}, lower...)
	}
	if len(curve) > 0 {
		fmt.Fprintf(&b, `<polygon points="%s %s %s %s" fill="steelblue" fill-opacity="0.25"/>`+"\n", at(1, 1),
			strings.Join(upper, " "), at(0, 0), strings.Join(lower, " "))
		fmt.Fprintf(&b, `<polyline points="%s %s %s" fill="none" stroke="steelblue" stroke-width="2"/>`+"\n", at(1, 1),
			strings.Join(curve, " "), at(0, 0))
	}
	at = panel(margin+side+gap, "calibration, bars of 95 %", "stated probability", "share of positives")
	for _, c := range s.Calibration {
		if c.Share.Withheld != "" {
			continue
		}
		x := (c.From + c.To) / 2
		fmt.Fprintf(&b, `<polyline points="%s %s" fill="none" stroke="steelblue"/>`+"\n", at(x, c.Share.Interval[0]),
			at(x, c.Share.Interval[1]))
		fmt.Fprintf(&b, `<polyline points="%s %s" fill="none" stroke="steelblue" stroke-width="3"/>`+"\n",
			at(c.From, c.Share.Value), at(c.To, c.Share.Value))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
