// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package adult_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/table"
)

// FuzzRead: any text is refused with table.ErrTable, or every value of its records
// lies in its range and makes features.
func FuzzRead(f *testing.F) {
	f.Add(sample)
	f.Add(strings.ReplaceAll(sample, "\n", "\r\n"))
	f.Add(strings.ReplaceAll(sample, "39", "-9223372036854775808"))
	f.Add("|\n,,,,,,,,,,,,,,\n")
	f.Add("\ufeff" + sample + "\x00")
	f.Fuzz(func(t *testing.T, text string) {
		records, err := adult.Read(strings.NewReader(text))
		if err != nil {
			require.ErrorIs(t, err, table.ErrTable)
			require.Nil(t, records)
			return
		}
		require.NotEmpty(t, records)
		for _, r := range records {
			for i, a := range adult.Attributes {
				top := int64(len(a.Levels)) - 1
				if a.Levels == nil {
					top = int64(*a.Max)
				}
				require.True(t, r.Value[i] >= 0 && r.Value[i] <= top, "%s = %d", a.Name, r.Value[i])
			}
		}
		features, err := adult.Experiment(104)
		require.NoError(t, err)
		rows, labels := features.Integers(records)
		require.Len(t, rows, len(records))
		require.Len(t, labels, len(records))
	})
}
