package model

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/noise"
)

// Load refuses what it does not understand, and says what.
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
		"unexpected end":           text[:len(text)/2],
		"version 2":                change(func(m map[string]any) { m["model"] = 2 }),
		"version 0":                `{}`,
		`unknown field "extra"`:    change(func(m map[string]any) { m["extra"] = 1 }),
		"theta has 1 numbers":      change(func(m map[string]any) { m["theta"] = []float64{1} }),
		"the schema has":           change(func(m map[string]any) { m["schema"].(map[string]any)["intercept"] = false }),
		"the loss":                 change(func(m map[string]any) { m["plan"].(map[string]any)["loss"] = map[string]any{"name": "cubes"} }),
		"a sum has 3 numbers":      change(func(m map[string]any) { m["moments"].(map[string]any)["scores"] = []float64{1, 2, 3} }),
		"intervals and their sums": change(func(m map[string]any) { delete(m, "moments") }),
		"neither one release":      change(func(m map[string]any) { delete(m, "choice") }),
		"budget":                   change(func(m map[string]any) { m["certificate"].(map[string]any)["epsilon"] = -1 }),
		"relation":                 change(func(m map[string]any) { m["certificate"].(map[string]any)["relation"] = "friends" }),
		"bounds": change(func(m map[string]any) {
			m["plan"].(map[string]any)["bounds"] = map[string]any{"Row": -1, "Label": 1}
		}),
		"after top-level value": strings.TrimSpace(text) + "{}",
	} {
		_, err := Load(strings.NewReader(bad))
		require.ErrorIs(t, err, ErrFile, want)
		require.ErrorContains(t, err, want)
	}
}

// A model says nothing of the records but what was released: no label, no count of them.
func TestModelHoldsTheReleaseOnly(t *testing.T) {
	_, data := incomes(t, 300)
	m, err := Fit(t.Context(), data, some, nil)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, m.Save(&b))
	var keys map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &keys))
	for _, k := range []string{"model", "description", "certificate", "coefficients", "theta", "plan", "schema", "build"} {
		require.Contains(t, keys, k)
		delete(keys, k)
	}
	require.Empty(t, keys)
}
