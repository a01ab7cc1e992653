// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package prefix marks errors whose text begins with the name of the package that made them, as is
// usual in Go, so that a command can leave the names out for readers of other languages.
package prefix

import (
	"errors"
	"fmt"
	"strings"
)

// marked is an error whose text begins with a name and ": ".
type marked struct {
	error
	name string
}

func (m *marked) Unwrap() error { return m.error }

// Of marks an error of another package, such as one that gets the name as a parameter.
func Of(name string, err error) error { return &marked{err, name} }

func mark(text string, err error) error {
	name, _, found := strings.Cut(text, ": ")
	if !found {
		panic("prefix: an error without the name of its package")
	}
	return Of(name, err)
}

// New is errors.New for a text that begins with the name of the package.
func New(text string) error { return mark(text, errors.New(text)) }

// Errorf is fmt.Errorf for a format that begins with the name of the package.
func Errorf(format string, args ...any) error { return mark(format, fmt.Errorf(format, args...)) }

// Strip returns the text of an error without the names of packages in it.
func Strip(err error) string {
	text := ": " + err.Error()
	for name := range names(err, map[string]bool{}) {
		text = strings.ReplaceAll(text, ": "+name+": ", ": ")
	}
	return text[2:]
}

// names adds the names in the tree of an error.
func names(err error, found map[string]bool) map[string]bool {
	if m, ok := err.(*marked); ok {
		found[m.name] = true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return names(e.Unwrap(), found)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			names(part, found)
		}
	}
	return found
}
