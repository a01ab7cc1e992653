// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Spy collects the noise of fits, so that a test can search for it in everything that they print.
// Concurrent fits may share one.
type Spy struct {
	mu     sync.Mutex
	values map[float64]bool
}

// Integers remembers k and returns it. Tests substitute it for release.OutputNoise and other steps
// of integer noise.
func (s *Spy) Integers(k []int64) []int64 {
	for _, v := range k {
		s.See(float64(v))
	}
	return k
}

// See remembers other secrets, such as the point of a trace.
func (s *Spy) See(x ...float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[float64]bool{}
	}
	for _, v := range x {
		if v != 0 { // the unused triangle of a symmetric matrix
			s.values[math.Abs(v)] = true
		}
	}
}

// Len returns the number of values seen.
func (s *Spy) Len() int { return len(s.values) }

// Find returns a value that the text holds in some form, decimal to 9 digits,
// hexadecimal or as the bytes of a float64, and the form.
func (s *Spy) Find(text string) (value float64, form string, found bool) {
	for v := range s.values {
		for _, form := range forms(v) {
			if strings.Contains(text, form) {
				return v, form, true
			}
		}
	}
	return 0, "", false
}

// forms are the beginnings of all the usual ways to write |v|: 9 significant
// digits make an accidental hit among 10⁵ numbers unlikely.
func forms(v float64) []string {
	word := binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
	little := slices.Clone(word)
	slices.Reverse(little)
	digits := strconv.FormatFloat(v, 'e', 16, 64)
	list := []string{
		digits[:10],                              // 1.23456789e+00
		strings.Replace(digits[:10], ".", "", 1), // the digits of 0.0012345678
		strconv.FormatFloat(v, 'x', -1, 64),
		strconv.FormatFloat(v, 'X', -1, 64),
		strconv.FormatFloat(v, 'b', -1, 64),
		hex.EncodeToString(word), hex.EncodeToString(little),
		string(word), string(little),
		strconv.FormatUint(math.Float64bits(v), 10),
	}
	if v > 1e-4 && v < 1e9 { // 123.456789: the point moves
		f := strconv.FormatFloat(v, 'f', 17, 64)
		list = append(list, f[:min(len(f), 10)])
	}
	return list
}

// Everything returns v as each of fmt's verbs and flags, JSON and gob show it,
// and as a panic does.
func Everything(v any) string {
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%e", "%g", "%d", "% x"} {
		fmt.Fprintf(&b, verb+"\n", v)
	}
	fmt.Fprint(&b, v, fmt.Errorf("%v", v), "\n")
	if text, err := json.Marshal(v); err == nil {
		b.Write(text)
	} else {
		fmt.Fprint(&b, err)
	}
	var g bytes.Buffer
	if err := gob.NewEncoder(&g).Encode(v); err == nil {
		b.Write(g.Bytes())
	} else {
		fmt.Fprint(&b, err)
	}
	func() {
		defer func() { fmt.Fprint(&b, recover()) }()
		panic(v)
	}()
	return b.String()
}
