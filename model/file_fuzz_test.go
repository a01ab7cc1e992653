// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/noise"
)

// FuzzLoad checks that a file is refused, or gives a model that can be saved, loaded again and
// described.
func FuzzLoad(f *testing.F) {
	_, data := incomes(f, 300)
	m, err := Fit(f.Context(), data, some, &Options{Intervals: &Intervals{}, Source: noise.Reproducible(1)})
	require.NoError(f, err)
	var b bytes.Buffer
	require.NoError(f, m.Save(&b))
	f.Add(b.String())
	f.Add(strings.Replace(b.String(), `"model"`, `"modell"`, 1))
	f.Add("{}")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Load(strings.NewReader(text))
		if err != nil {
			require.Nil(t, m)
			return
		}
		m.Coefficients()
		m.Certificate()
		var first, second bytes.Buffer
		require.NoError(t, m.Save(&first))
		again, err := Load(bytes.NewReader(first.Bytes()))
		require.NoError(t, err)
		require.NoError(t, again.Save(&second))
		require.Equal(t, first.String(), second.String())
	})
}
