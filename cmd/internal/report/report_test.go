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
	svg := string(Forest(values, "log-odds", `of "x"`))
	require.Contains(t, svg, "&lt;a&gt;")
	require.Contains(t, svg, "&#34;x&#34;")
	require.Equal(t, 5, strings.Count(svg, `"bar k0"`), "three bars and two arrows")
	require.NotContains(t, string(Forest([]Value{{Name: "zero"}}, "", "")), "NaN")
	require.NotContains(t, string(Forest(nil, "", "")), "NaN")
	require.NotContains(t, string(Forest([]Value{{Unidentified: true}}, "", "")), "Inf")
}
