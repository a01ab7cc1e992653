// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCurves: what the pictures say.
func TestCurves(t *testing.T) {
	if testing.Short() {
		t.Skip("three problems by eighteen methods: eight seconds")
	}
	least := map[string]float64{} // error that a method reaches
	for question, make := range questions {
		rows, err := Curves(t.Context(), question)
		require.NoError(t, err)
		for _, row := range rows[1:] {
			v, err := strconv.ParseFloat(row[2], 64)
			require.NoError(t, err)
			name := question + ": " + row[0]
			if old, ok := least[name]; !ok || v < old {
				least[name] = v
			}
		}
		for _, m := range make().methods { // no name outlives a type
			name, _, _ := strings.Cut(strings.ReplaceAll(m.name, "-", ""), ",")
			require.True(t, strings.EqualFold(name, reflect.TypeOf(m.m).Elem().Name()), m.name)
		}
	}
	require.Greater(t, least["bias: StochasticTOS, fixed step"], 1e-6)
	require.Less(t, least["bias: StochasticTOS, SVRG"], 1e-6)
	require.Less(t, least["adaptive: DavisYin, search"], 1e-9)
	require.Greater(t, least["adaptive: DavisYin, 1.9/L"], 1e-9)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Curves(ctx, "adaptive")
	require.ErrorIs(t, err, context.Canceled)
}
