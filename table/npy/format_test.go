// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package npy

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeaders reads headers of the format versions 1 to 3, as other programs write them.
func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		version byte
		text    string
		want    shape
	}{
		{1, "{'descr': '<f8', 'fortran_order': False, 'shape': (1000, 13), }   \n", shape{1000, 13, 8}},
		{2, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }\n", shape{0, 2, 4}},
		{3, `{"shape":(7,3,),"descr":"<f8","fortran_order":False}`, shape{7, 3, 8}},
		{1, "{ 'fortran_order' : False ,\n'shape' : ( 7 , 3 ) , 'descr' : '<f8' }", shape{7, 3, 8}},
	} {
		file := npyFile(c.version, c.text, 0)
		s, at, err := readHeader(bytes.NewReader(file))
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, s)
		require.EqualValues(t, len(file), at)
	}
	for _, s := range []shape{{0, 2, 4}, {math.MaxInt64 / 32, 2, 8}, {1, maxColumns, 8}} {
		require.Len(t, s.header(), headerSize)
		got, at, err := readHeader(bytes.NewReader(s.header()))
		require.NoError(t, err)
		require.Equal(t, s, got)
		require.EqualValues(t, headerSize, at)
	}
}

// TestBadHeaders checks that wrong headers, and those of arrays that are not tables of records,
// give an error that names the reason.
func TestBadHeaders(t *testing.T) {
	const good = "{'descr': '<f8', 'fortran_order': False, 'shape': (10, 3), }"
	change := func(old, new string) []byte { return npyFile(1, strings.Replace(good, old, new, 1), 240) }
	path := filepath.Join(t.TempDir(), "x.npy")
	require.NoError(t, os.WriteFile(path, change("", ""), 0o600))
	f, err := Open(path)
	require.NoError(t, err)
	f.Close()
	for _, c := range []struct {
		want string
		file []byte
	}{
		{"does not begin as", nil},
		{"does not begin as", []byte("a,b\n1,2\n")},
		{"does not begin as", []byte("\x93NUMPX\x01\x00")},
		{"ends inside of its header", []byte(magic + "\x01\x00")},
		{"ends inside of its header", []byte(magic + "\x02\x00\x01")},
		{"ends inside of its header", npyFile(1, good, 0)[:40]},
		{"version 4", npyFile(4, good, 0)},
		{"longer than 65536 bytes", npyFile(2, strings.Repeat(" ", maxHeader+1), 0)},
		{"longer than 65536 bytes", []byte(magic + "\x02\x00\xff\xff\xff\xff")},
		{"the type \">f8\"", change("<f8", ">f8")},
		{"the type \"|O\"", change("<f8", "|O")},
		{"Fortran order", change("False", "True")},
		{"want (records, columns)", change("(10, 3)", "(10,)")},
		{"want (records, columns)", change("(10, 3)", "(10, 3, 1)")},
		{"want (records, columns)", change("(10, 3)", "()")},
		{"want (records, columns)", change("(10, 3)", "(-10, 3)")},
		{"want (records, columns)", change("(10, 3)", "(99999999999999999999, 3)")},
		{"1 columns", change("(10, 3)", "(10, 1)")},
		{"columns, want", change("(10, 3)", "(0, 99999999999)")},
		{"more numbers than can be addressed", change("(10, 3)", "(9000000000000000000, 3)")},
		{"more numbers than can be addressed", change("(10, 3)", "(6148914691236517206, 3)")}, // 3n = 2 mod 2⁶⁴
		{"more numbers than can be addressed", change("(10, 3)", "(384307168202282326, 6)")},  // 8·6n = 2⁶⁴ + 32
		{"shorter than its header", change("(10, 3)", "(1000000000000, 3)")},
		{"shorter than its header", change("(10, 3)", "(11, 3)")},
		{"longer than its header", change("(10, 3)", "(9, 3)")},
		{"longer than its header", change("<f8", "<f4")},
		{"twice", change("'descr'", "'shape': (10, 3), 'descr'")},
		{"unknown key \"more\"", change("'descr'", "'more': 1, 'descr'")},
		{"not just", change("'descr': '<f8', ", "")},
		{"not just", change("}", "} x")},
		{"no entry such as", change(", }", "")},
		{"no entry such as", change("{", "")},
		{"no entry such as", change("'<f8', 'fortran_order': False, 'shape': (10, 3), }", "'<f8")},
	} {
		require.NoError(t, os.WriteFile(path, c.file, 0o600))
		_, err := Open(path)
		require.ErrorIs(t, err, ErrFile, c.want)
		require.ErrorContains(t, err, c.want)
	}
}

// FuzzHeader checks that any bytes give an error or a valid shape that survives writing and
// reading.
func FuzzHeader(f *testing.F) {
	f.Add(npyFile(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (10, 3), }", 0))
	f.Add(npyFile(2, `{"shape":(7,3,),"descr":"<f4","fortran_order":False}`, 0))
	f.Add(shape{5, 2, 8}.header())
	f.Add([]byte(magic + "\x03\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, at, err := readHeader(bytes.NewReader(b))
		if err != nil {
			return
		}
		require.NoError(t, s.check())
		require.GreaterOrEqual(t, s.bytes(), int64(0))
		require.LessOrEqual(t, at, int64(len(b)))
		again, _, err := readHeader(bytes.NewReader(s.header()))
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}

// TestNumPy checks that NumPy reads the files of Create, and that Open reads the files of NumPy.
func TestNumPy(t *testing.T) {
	if err := exec.Command("python3", "-c", "import numpy").Run(); err != nil {
		t.Skip("this system has no NumPy")
	}
	dir := t.TempDir()
	rows, labels := write(t, filepath.Join(dir, "go.npy"), 1000, 3, Options{})
	script := "import numpy as np; a = np.load('go.npy'); print(a.shape, a.dtype); " +
		"np.save('f8.npy', a); np.save('f4.npy', a.astype('<f4')); np.save('f.npy', np.asfortranarray(a))"
	cmd := exec.Command("python3", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "(1000, 4) float64\n", string(out))
	for _, name := range []string{"f8.npy", "f4.npy"} {
		f, err := Open(filepath.Join(dir, name))
		require.NoError(t, err)
		gotRows, gotLabels, err := all(f, 100)
		require.NoError(t, err)
		require.True(t, equal(rows, gotRows) && equal(labels, gotLabels), fmt.Sprint(name))
		f.Close()
	}
	_, err = Open(filepath.Join(dir, "f.npy"))
	require.ErrorContains(t, err, "Fortran order")
}
