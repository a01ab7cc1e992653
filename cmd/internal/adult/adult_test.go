// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package adult_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/table"
)

const sample = "|1x3 Cross validator\n" +
	"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, " +
	"United-States, <=50K\n" +
	"95, ?, 1, HS-grad, 9, Divorced, ?, Husband, Black, Female, 200000, 4356, -1, ?, >50K.\n" +
	"50, Private, 1, HS-grad, 9, Divorced, Sales, Wife, Other, Female, 0, 0, 99, France, <=50K.\n\n"

func TestRead(t *testing.T) {
	records, err := adult.Read(strings.NewReader(sample))
	require.NoError(t, err)
	require.Len(t, records, 3)
	require.Equal(t, []bool{false, true, false}, []bool{records[0].Positive, records[1].Positive, records[2].Positive})
	require.Equal(t, int64(90), records[1].Value[0]) // into [0, 90]
	require.Equal(t, int64(99999), records[1].Value[10])
	require.Zero(t, records[1].Value[12])
	require.Equal(t, int64(8), records[1].Value[1]) // "?" is the last level

	f, err := adult.Experiment(23)
	require.NoError(t, err)
	require.Equal(t, int64(48399516), f.Denominator())
	require.Equal(t, "Divorced", adult.Attributes[f[0].Attribute].Levels[f[0].Level])
	require.Equal(t, "capital-gain", adult.Attributes[f[20].Attribute].Name)
	rows, labels := f.Integers(records)
	floats, ys := f.Floats(records)
	require.Equal(t, []int{-1, 1, -1}, labels)
	require.Equal(t, []float64{-1, 1, -1}, ys)
	require.Equal(t, int64(2174*484), rows[0][20])
	for i, row := range rows {
		ones := 0
		for j, v := range row {
			require.InDelta(t, floats[i][j], float64(v)/48399516, 1e-15) // one rounding each
			if j < 20 && v != 0 {
				ones++
			}
		}
		require.Equal(t, 4, ones)
	}
}

func TestReadRejects(t *testing.T) {
	line := strings.Split(sample, "\n")[1]
	for want, text := range map[string]string{
		"no records": "\n|x\n",
		"line 2":     line + "\na,b,c",
		`"age"`:      strings.Replace(line, "39", "x", 1),
		`"race"`:     strings.Replace(line, "White", "Secret", 1),
		`"income"`:   strings.Replace(line, "<=50K", "50K", 1),
		"line 1":     strings.Repeat("x", 1<<20),
	} {
		_, err := adult.Read(strings.NewReader(text))
		require.ErrorIs(t, err, table.ErrTable)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "Secret")
	}
	broken := errors.New("disk")
	_, err := adult.Read(io.MultiReader(strings.NewReader(line+"\n"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
}

func TestExperiment(t *testing.T) {
	for _, size := range []int{23, 104} {
		f, err := adult.Experiment(size)
		require.NoError(t, err)
		require.Len(t, f, size)
	}
	_, err := adult.Experiment(7)
	require.ErrorContains(t, err, "7 columns")
}

// The schema reads every line of the file, and of text like it.
func TestSchema(t *testing.T) {
	s, err := table.ReadSchema(strings.NewReader(adult.Schema))
	require.NoError(t, err)
	data, err := table.ReadCSV(strings.NewReader(sample), s)
	require.NoError(t, err)
	n, d := data.Records.Dims()
	require.Equal(t, []int{3 + 2, data.Encoder.Dim()}, []int{n, d}, "a comment and an empty line are records of zeros")
	names := []string{"income"}
	for _, c := range s.Columns {
		names = append(names, c.Name)
	}
	for _, a := range adult.Attributes {
		require.Contains(t, names, a.Name)
	}
	folder := os.Getenv("PRIVOPT_DATA")
	if folder == "" {
		t.Skip("PRIVOPT_DATA is not set: it names the folder that holds adult/adult.data")
	}
	// Both end with an empty line, and adult.test begins with a comment: these are records of zeros.
	for name, want := range map[string][2]int{"adult.data": {32562, 7841}, "adult.test": {16283, 3846}} {
		f, err := os.Open(filepath.Join(folder, "adult", name))
		require.NoError(t, err)
		data, err := table.ReadCSV(f, s)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		n, _ := data.Records.Dims()
		positive := 0
		for i := range n {
			if data.Records.Label(i) > 0 {
				positive++
			}
		}
		require.Equal(t, want, [2]int{n, positive})
	}
}

func BenchmarkSchema(b *testing.B) {
	text, err := os.ReadFile(filepath.Join(os.Getenv("PRIVOPT_DATA"), "adult", "adult.data"))
	if err != nil {
		b.Skip("PRIVOPT_DATA names no folder that holds adult/adult.data")
	}
	s, err := table.ReadSchema(strings.NewReader(adult.Schema))
	require.NoError(b, err)
	for b.Loop() {
		_, err := table.ReadCSV(bytes.NewReader(text), s)
		require.NoError(b, err)
	}
}

func TestFiles(t *testing.T) {
	folder := os.Getenv("PRIVOPT_DATA")
	if folder == "" {
		t.Skip("PRIVOPT_DATA is not set: it names the folder that holds adult/adult.data")
	}
	for name, want := range map[string][2]int{"adult.data": {32561, 7841}, "adult.test": {16281, 3846}} {
		f, err := os.Open(filepath.Join(folder, "adult", name))
		require.NoError(t, err)
		records, err := adult.Read(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		positive := 0
		for _, r := range records {
			if r.Positive {
				positive++
			}
		}
		require.Equal(t, want, [2]int{len(records), positive})

		balanced := adult.Balanced(records)
		require.Len(t, balanced, 2*positive)
		require.Equal(t, records[0], balanced[0])
	}
}

func TestBalanced(t *testing.T) {
	yes, no, last := adult.Record{Positive: true}, adult.Record{}, adult.Record{Value: [14]int64{1}}
	require.Equal(t, []adult.Record{no, yes, no, yes}, adult.Balanced([]adult.Record{no, yes, no, last, yes}))
	require.Empty(t, adult.Balanced([]adult.Record{no, no}))
}

func TestOneHot(t *testing.T) {
	s, err := adult.OneHot(strings.NewReader(sample))
	require.NoError(t, err)
	require.Equal(t, []float64{-1, -1}, s.Labels, "the second line lacks two values")
	require.Len(t, s.Rows[0], 104)
	require.Equal(t, 1.0, s.Accuracy(make([]float64, 104)), "a score of 0 is −1")
	_, err = adult.OneHot(strings.NewReader(strings.Split(sample, "\n")[2] + "\n"))
	require.ErrorContains(t, err, "no record without missing values")
}
