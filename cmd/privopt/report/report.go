// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package report writes a report on a private model: one HTML file with its pictures inside, which
// loads nothing and runs no script.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Report is the content of the file. Text is plain and gets escaped; pictures are made by the
// functions of this package.
type Report struct {
	Title, Lead string
	Warning     string   // "" for a private model
	Plain       []string // the guarantee in plain words; the first of them introduces ε
	Detection   template.HTML
	Asked       []Fact
	Guarantee   []Section // in the words of privopt explain

	Forests              []Figure
	Coefficients         Table
	CoefficientNotes     []string
	CoefficientDetail    string // below the table
	Effects              []Figure
	EffectNotes          []string
	Score                *Score // nil without one
	Budgets              Table
	BudgetNote           string
	Ledger               []string
	LedgerTables         []Table
	Certificate          []Fact
	Assumptions          []string
	Measure, MeasureNote string // the command of a score, where there is none
	Commands, Program    string
}

// Fact is a name and what is to be said about it.
type Fact struct{ Name, Text string }

// Section is a titled piece of running text.
type Section struct {
	Title string
	Parts []Part
}

// Part is a paragraph, items of a list or a formula; two are empty.
type Part struct {
	Text    string
	Items   []string
	Formula string
}

// Figure is a picture with its caption.
type Figure struct {
	Caption string
	SVG     template.HTML
}

// Table has a head of names; the first cell of a row is its head.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
}

// Score is a private score of the model.
type Score struct {
	Notes   []string
	Tables  []Table
	Figures []Figure
}

//go:embed report.html
var page string

var (
	spaced = regexp.MustCompile(`(\d) %|([εδ]) = |[×÷] \d`)
	power  = regexp.MustCompile(`\b([0-9]+(?:\.[0-9]+)?)e([+-])0*([0-9]+)\b`)
	minus  = regexp.MustCompile(`^-([0-9.]+)`)
	raised = strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷",
		"8", "⁸", "9", "⁹")
)

// typeset writes 1e-09 as 1 × 10⁻⁹ with at most three digits and a hyphen before a number as minus,
// and keeps a value beside its unit and its name.
func typeset(s string) string {
	s = power.ReplaceAllStringFunc(s, func(s string) string {
		part := power.FindStringSubmatch(s)
		v, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return s
		}
		sign := ""
		if part[2] == "-" {
			sign = "⁻"
		}
		return strconv.FormatFloat(v, 'g', 3, 64) + "\u00a0×\u00a010" + sign + raised.Replace(part[3])
	})
	s = minus.ReplaceAllString(s, "−$1")
	return spaced.ReplaceAllStringFunc(s, func(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") })
}

var tmpl = template.Must(template.New("report").Funcs(template.FuncMap{
	"first":   func(r []string) string { return r[0] },
	"rest":    func(r []string) []string { return r[1:] },
	"typeset": typeset,
	"shape": func(t Table) string {
		switch {
		case len(t.Head) == 2 && len(t.Rows) > 20:
			return "scroll long" // in two columns
		case len(t.Rows) <= 15:
			return "scroll whole" // on one page
		}
		return "scroll"
	},
}).Parse(page))

// Write writes the report as HTML that is well-formed XML too.
func Write(w io.Writer, r *Report) error {
	if r == nil {
		return fmt.Errorf("report: the report is nil")
	}
	return tmpl.Execute(w, r)
}
