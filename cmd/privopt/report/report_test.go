// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package report

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// luminance is the relative luminance of WCAG 2.1 of a color such as #14171b.
func luminance(t *testing.T, color string) float64 {
	v, err := strconv.ParseUint(color[1:], 16, 32)
	require.NoError(t, err)
	sum := 0.0
	for i, w := range []float64{0.0722, 0.7152, 0.2126} {
		c := float64(v>>(8*i)&255) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += w * c
	}
	return sum
}

// TestContrast checks the colors of the style sheet: light, dark and printed.
func TestContrast(t *testing.T) {
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(page, -1)
	require.Len(t, blocks, 3)
	for _, b := range blocks {
		colors := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+): (#[0-9a-f]{6});`).FindAllStringSubmatch(b[1], -1) {
			colors[m[1]] = luminance(t, m[2])
		}
		require.Len(t, colors, 12)
		for _, back := range []string{"page", "panel"} {
			for _, ink := range []string{"ink", "soft", "warn", "k0", "k1", "k2", "k3", "k4", "k5"} {
				hi, lo := max(colors[back], colors[ink]), min(colors[back], colors[ink])
				require.GreaterOrEqual(t, (hi+0.05)/(lo+0.05), 4.5, "%s on %s in %s", ink, back, b[1])
			}
		}
	}
	named := len(regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b`).FindAllString(page, -1))
	require.Equal(t, 36, named, "a color outside the three lists is not checked")
}

func TestTicks(t *testing.T) {
	require.Equal(t, []float64{0, 0.5, 1}, ticks(0, 1, 3))
	require.Equal(t, []float64{-100, 0, 100, 200}, ticks(-120, 210, 5))
	require.False(t, math.Signbit(ticks(-3, 10, 5)[0]), "−0")
	require.LessOrEqual(t, len(ticks(1e17, 1e17+64, 5)), 7, "steps below the spacing of doubles end")
	require.Equal(t, "−0.5", label(-0.5))
}

// TestForest: wide intervals end in arrows, and names are escaped.
func TestForest(t *testing.T) {
	values := []Value{{Name: "<a>", Lo: -1, Mid: 0.5, Hi: 2}, {Name: "b", Lo: 0, Mid: 1, Hi: 2}, {Name: "wide",
		Lo: -1e9, Hi: 1e9}}
	svg := string(Forests(values, Axis{Name: "log-odds"}, `of "x"`)[0].SVG)
	require.Contains(t, svg, "&lt;a&gt;")
	require.Contains(t, svg, "&#34;x&#34;")
	require.Equal(t, 9, strings.Count(svg, `"bar k0"`), "three bars with two ends each")
	require.NotContains(t, string(Forests([]Value{{Name: "zero"}}, Axis{Odds: true}, "")[0].SVG), "NaN")
	require.Empty(t, Forests(nil, Axis{}, ""))
	require.NotContains(t, string(Forests([]Value{{Unidentified: true}}, Axis{}, "")[0].SVG), "Inf")
	require.Len(t, Forests(make([]Value, 14), Axis{}, ""), 2)
}

// TestOdds: ticks are round factors inside the axis, and a few at any scale.
func TestOdds(t *testing.T) {
	for _, hi := range []float64{1e-3, 0.02, 0.1, 0.3, 0.7, 1.5, 3, 6, 12, 25, 100} {
		at, name := Axis{Odds: true}.ticks(-hi, hi/2, 6)
		require.LessOrEqual(t, len(at), 8) // ticks asks for about six
		for _, v := range at {
			require.True(t, v >= -hi-1e-9 && v <= hi/2+1e-9, "%g outside ±%g", v, hi) // as ticks rounds
			require.LessOrEqual(t, len([]rune(name(v))), 8, name(v))
		}
	}
	require.Equal(t, "÷ 4", times(-math.Log(4)))
	require.Equal(t, "same", times(0))
}

func TestTypeset(t *testing.T) {
	for in, want := range map[string]string{
		"δ = 1.111111e-09": "δ\u00a0=\u00a01.11\u00a0×\u00a010⁻⁹", "-8.2": "−8.2", "95 % of it": "95\u00a0% of it",
		"<1e-16": "<1\u00a0×\u00a010⁻¹⁶", "entry 91e292170235": "entry 91e292170235", "1e+12": "1\u00a0×\u00a010¹²",
		"well-known 2-step": "well-known 2-step",
	} {
		require.Equal(t, want, typeset(in))
	}
}
