// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func readText(r io.Reader, comma byte) (all [][]string, err error) {
	t, err := newText(r, comma, 0)
	if err != nil {
		return nil, err
	}
	for {
		fields, err := t.next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		record := []string{}
		for _, f := range fields {
			record = append(record, string(f))
		}
		all = append(all, record)
	}
}

func zipped(t testing.TB, text string) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return z.Bytes()
}

func TestText(t *testing.T) {
	long := strings.Repeat("z", 200000)
	for text, want := range map[string][][]string{
		"":                                {},
		"a,b\n1,2\n":                      {{"a", "b"}, {"1", "2"}},
		bom + "a,b\r\n\r\n\n1, 2 ":        {{"a", "b"}, {"1", "2"}},
		"a\n\n\"\"\nb":                    {{"a"}, {""}, {"b"}},
		"\"a,b\",\"c\"\"d\"\n":            {{"a,b", `c"d`}},
		"\"a\nb\r\nc\" , d\n1,2\n":        {{"a\nb\nc", "d"}, {"1", "2"}},
		" \"a\" ,\tb\n":                   {{"a", "b"}},
		",\n":                             {{"", ""}},
		long + "," + long + "\n\"1\",2\n": {{long, long}, {"1", "2"}},
		"\"" + long + "\n" + long + "\"":  {{long + "\n" + long}},
		"a\rb,c\r":                        {{"a\rb", "c"}},
	} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
			"gzip": bytes.NewReader(zipped(t, text)),
		} {
			got, err := readText(r, ',')
			require.NoError(t, err, "%s %.40q", name, text)
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, want[i], got[i], "%s %.40q", name, text)
			}
		}
	}
	got, err := readText(strings.NewReader("a;b,c\n"), ';')
	require.NoError(t, err)
	require.Equal(t, [][]string{{"a", "b,c"}}, got)
}

// TestTextTabs: a tab that delimits fields is no blank around a quoted one.
func TestTextTabs(t *testing.T) {
	for text, want := range map[string][]string{
		"\"a\"\t\tb": {"a", "", "b"}, "\t \"a\" \tb": {"", "a", "b"}, "\"a\"\t": {"a", ""}, "a\t\t\"b\"": {"a", "", "b"},
	} {
		got, err := readText(strings.NewReader(text), '\t')
		require.NoError(t, err, "%q", text)
		require.Equal(t, [][]string{want}, got, "%q", text)
	}
}

func TestTextErrors(t *testing.T) {
	whole := zipped(t, strings.Repeat("1,2\n", 1000))
	for _, c := range []struct{ text, want string }{
		{"a,b\n1,\"4711\n", "line 2, column 2: a quote that is not closed"},
		{"a,b\n1,4\"711\"\n", "line 2, column 2: a quote inside a field that does not begin with one"},
		{"a,b\n\"1\"4711,2\n", "line 2, column 1: text between a closing quote and the delimiter"},
		{"\n\n\"1\n2\n3\"\nx,\"4711\"4711", "line 6, column 2: text between"},
		{"\xff\xfea\x00,\x00", "the file is UTF-16, want UTF-8"},
		{string(whole[:len(whole)-20]), "unexpected EOF"},
		{"\x1f\x8b4711", "gzip"},
		{strings.Repeat("4711", maxLine/4+100000), "line 1: longer than 64 MB"},
		{"\"" + strings.Repeat("4711\n", maxLine/5+100000), "line 1, column 1: a quote that is not closed within 64 MB"},
	} {
		_, err := readText(strings.NewReader(c.text), ',')
		require.ErrorIs(t, err, ErrTable)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "4711")
	}
	_, err := newText(nil, ',', 0)
	require.ErrorIs(t, err, ErrTable)
	_, err = readText(io.MultiReader(strings.NewReader("a,b\n"), iotest.ErrReader(io.ErrClosedPipe)), ',')
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.ErrorIs(t, err, ErrTable)
}

func TestTextComment(t *testing.T) {
	r, err := newText(strings.NewReader("|1x3 \"\na|,b\n|\n"), ',', '|')
	require.NoError(t, err)
	fields, err := r.next()
	require.NoError(t, err)
	require.Equal(t, "a|", string(fields[0]))
	_, err = r.next()
	require.ErrorIs(t, err, io.EOF)
}

// FuzzText checks that text that encoding/csv accepts is read with the same result, except for
// blanks around fields.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a,b\n1,2\n", "\"a\"\"\n\",b\r\n", " \"a\",b\r", "a\rb\n", "\"a\" ,b", "\"\n", "a\"b",
		",\"", "\xff\xfe",
		bom, "\"\r\n\",\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "\x1f\x8b") || strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
			return
		}
		got, err := readText(strings.NewReader(text), ',')
		in := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, bom)))
		in.FieldsPerRecord, in.TrimLeadingSpace = -1, true
		want, bad := in.ReadAll()
		if bad != nil {
			if err != nil {
				require.ErrorIs(t, err, ErrTable)
			}
			return
		}
		require.NoError(t, err, "%q", text)
		require.Len(t, got, len(want))
		for i := range want {
			for j := range want[i] {
				want[i][j] = strings.TrimSpace(want[i][j])
			}
			require.Equal(t, want[i], got[i], "%q", text)
		}
	})
}
