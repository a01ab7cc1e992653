// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/table"
)

// TestLoadRefuses checks that Load refuses files that it does not understand, with an error that
// names the reason.
func TestLoadRefuses(t *testing.T) {
	_, data := incomes(t, 300)
	m, err := Fit(t.Context(), data, some, &Options{Intervals: &Intervals{}, Source: noise.Reproducible(1)})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, m.Save(&b))
	text := b.String()
	_, err = Load(strings.NewReader(text))
	require.NoError(t, err)
	change := func(f func(m map[string]any)) string {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		f(v)
		out, err := json.Marshal(v)
		require.NoError(t, err)
		return string(out)
	}
	for want, bad := range map[string]string{
		"unexpected end":        text[:len(text)/2],
		"version 2":             change(func(m map[string]any) { m["model"] = 2 }),
		"version 0":             `{}`,
		`unknown field "extra"`: change(func(m map[string]any) { m["extra"] = 1 }),
		"theta has 1 numbers":   change(func(m map[string]any) { m["theta"] = []float64{1} }),
		"the schema has":        change(func(m map[string]any) { m["schema"].(map[string]any)["intercept"] = false }),
		"the loss": change(func(m map[string]any) {
			m["plan"].(map[string]any)["loss"] = map[string]any{"name": "cubes"}
		}),
		"a sum has 3 numbers": change(func(m map[string]any) {
			m["moments"].(map[string]any)["scores"] = []float64{1, 2, 3}
		}),
		"intervals and their sums": change(func(m map[string]any) { delete(m, "moments") }),
		"neither one release":      change(func(m map[string]any) { delete(m, "choice") }),
		"budget":                   change(func(m map[string]any) { m["certificate"].(map[string]any)["epsilon"] = -1 }),
		"relation": change(func(m map[string]any) {
			m["certificate"].(map[string]any)["relation"] = "friends"
		}),
		"bounds": change(func(m map[string]any) {
			m["plan"].(map[string]any)["bounds"] = map[string]any{"Row": -1, "Label": 1}
		}),
		`"model.mapped/1", is withdrawn, only the version that wrote the model reads it`: change(func(m map[string]any) {
			m["certificate"].(map[string]any)["theorem"] = "model.mapped/1"
			m["plan"].(map[string]any)["map"] = "full"
		}),
		"after top-level value": strings.TrimSpace(text) + "{}",
	} {
		_, err := Load(strings.NewReader(bad))
		require.ErrorIs(t, err, ErrFile, want)
		require.ErrorContains(t, err, want)
	}
}

// paths calls visit with the path of every value in v. Of the elements of a list it visits only the
// first and the last.
func paths(v any, at []any, visit func(path []any)) {
	visit(slices.Clone(at))
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			paths(v[k], append(at, k), visit)
		}
	case []any:
		for i := range v {
			if i == 0 || i == len(v)-1 {
				paths(v[i], append(at, i), visit)
			}
		}
	}
}

// with returns a copy of v in which the value at path is replaced.
func with(v any, path []any, value any) any {
	if len(path) == 0 {
		return value
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		out[path[0].(string)] = with(v[path[0].(string)], path[1:], value)
		return out
	case []any:
		out := slices.Clone(v)
		out[path[0].(int)] = with(v[path[0].(int)], path[1:], value)
		return out
	}
	panic("no path")
}

// TestLoadHostile replaces every value of a model file by hostile values, one at a time. The file
// must be refused with a short, readable error, or give a model whose numbers are all finite.
func TestLoadHostile(t *testing.T) {
	hostile := []any{nil, true, "", "x", "\x1b[31m", strings.Repeat("0", 64), -1, 0, 1, 1e-320, 0.3, 1e9, 1e18, 1e308,
		-1e308,
		[]any{}, []any{nil}, []any{1e308, 1e308}, map[string]any{}, json.RawMessage("1e999"), strings.Repeat("x", 1000)}
	tried, refused, loaded := 0, 0, 0
	for name, o := range map[string]Options{
		"logistic": {}, "intervals": {Intervals: &Intervals{Radius: 3}},
		"lasso":   {Penalty: Penalty{Lasso: 0.01}, Set: Set{Name: Ball, Size: 5}},
		"classes": {Loss: Loss{Name: Multinomial}}, "squares": {Loss: Loss{Name: Squares}},
		"bare": {Loss: Loss{Name: Multinomial}},
	} {
		data := tables(t)[cmp.Or(o.Loss.Name, Logistic)]
		if name == "bare" {
			data = &table.Data{Records: data.Records}
		}
		o.Source = noise.Reproducible(2, "hostile", name)
		m, err := Fit(t.Context(), data, some, &o)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, m.Save(&b))
		var whole any
		require.NoError(t, json.Unmarshal(b.Bytes(), &whole))
		paths(whole, nil, func(path []any) {
			if slices.Contains(path, any("schema")) && name != "logistic" ||
				name == "intervals" && len(path) > 0 && !slices.Contains([]any{"theta", "plan", "choice", "moments"}, path[0]) {
				return // another model tests this path
			}
			for _, value := range hostile {
				if tried++; tried%5 > 0 && !testkit.Long() {
					continue
				}
				text, err := json.Marshal(with(whole, path, value))
				require.NoError(t, err)
				m, err := Load(bytes.NewReader(text))
				if err != nil {
					refused++
					require.ErrorIs(t, err, ErrFile)
					require.Nil(t, m)
					require.Less(t, len(err.Error()), 400, "%v", path)
					require.NotContains(t, err.Error(), "%!")
					continue
				}
				loaded++
				used(t, m, fmt.Sprint(name, path, " = ", value))
			}
		})
	}
	t.Logf("%d files refused, %d loaded", refused, loaded)
}

// used calls all methods of a model and requires finite numbers.
func used(t *testing.T, m *Model, what string) {
	finite := func(v ...float64) {
		for _, v := range v {
			require.False(t, math.IsNaN(v) || math.IsInf(v, 0), what)
		}
	}
	finite(m.Theta()...)
	for _, c := range m.Coefficients() {
		finite(c.Value)
	}
	s := m.Summary()
	for _, r := range s.Rows {
		finite(r.Estimate)
		if i := r.Interval; i != nil {
			finite(i.Debiased, i.StdErr, i.PrivacyErr, i.PrivacyShare, i.Lower, i.Upper, i.Z, i.P)
		}
	}
	require.NotContains(t, s.String(), "NaN", what)
	m.Describe()
	if head := m.LedgerHead(); head != "" {
		require.Len(t, head, 64, what)
	}
	require.NoError(t, m.Certificate().Check(), what)
	row := make([]float64, m.features())
	row[0] = 1
	p := m.Predict(row)
	finite(append(p.Probabilities, p.Score)...)
	_, err := json.Marshal(s)
	require.NoError(t, err, what)
	require.NoError(t, m.Save(io.Discard), what)
}

// TestModelHoldsTheReleaseOnly checks that a model file has no fields except the released numbers
// and public facts: in particular no label and no number of records.
func TestModelHoldsTheReleaseOnly(t *testing.T) {
	_, data := incomes(t, 300)
	m, err := Fit(t.Context(), data, some, nil)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, m.Save(&b))
	var keys map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &keys))
	for _, k := range []string{"model", "description", "certificate", "coefficients", "theta", "plan", "schema", "build",
		"choice"} {
		require.Contains(t, keys, k)
		delete(keys, k)
	}
	require.Empty(t, keys)
}
