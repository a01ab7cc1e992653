// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package report writes a report on a private model: one HTML file with its pictures inside, which
// loads nothing and runs no script.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

// Report is the content of the file. Text is plain and gets escaped; pictures are made by the
// functions of this package.
type Report struct {
	Title, Lead string
	Warning     string // "" for a private model
	Asked       []Fact
	Plain       string // the guarantee in one sentence
	Detection   template.HTML
	Guarantee   []Section // in the words of privopt explain

	Unit              string
	Forests           []Figure
	Coefficients      Table
	CoefficientNotes  []string
	Effects           []Figure
	EffectNote        string
	Score             *Score // nil without one
	Budgets           Table
	BudgetNote        string
	Ledger            []string
	LedgerTables      []Table
	Certificate       []Fact
	Assumptions       []string
	Commands, Program string
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

var tmpl = template.Must(template.New("report").Funcs(template.FuncMap{
	"first": func(r []string) string { return r[0] },
	"rest":  func(r []string) []string { return r[1:] },
}).Parse(page))

// Write writes the report as HTML that is well-formed XML too.
func Write(w io.Writer, r *Report) error {
	if r == nil {
		return fmt.Errorf("report: the report is nil")
	}
	return tmpl.Execute(w, r)
}
