// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainForm is a schema for UTF-8, commas and decimal points, lenient about every field.
const plainForm = `{"schema": 1, "missing": [""], "label": {"column": "pays", "positive": ["yes"], "negative": ["no"],
  "unknown": "negative"}, "columns": [{"name": "pay", "min": 0, "max": 9000, "other": true},
  {"name": "city", "levels": ["Bern", "Köln"], "other": true}]}`

// TestEveryForm holds what a user gets from files in forms that are common: the draft from public
// rows describes the form, and its schema reads every field. The schema of another form refuses a
// private file by its structure alone, or reads it without a word; a Tally shows what happened.
func TestEveryForm(t *testing.T) {
	rows := func(pay func(i int) string) string {
		var b strings.Builder
		b.WriteString("pay,city,pays\n")
		for i := range 30 {
			fmt.Fprintf(&b, "%s,%s,%s\n", pay(i), []string{"Köln", "Bern", "Bern"}[i%3], []string{"yes", "no"}[i%2])
		}
		return b.String()
	}
	plain := rows(func(i int) string { return fmt.Sprint(1500 + 31*i) })
	semicolons := strings.ReplaceAll(plain, ",", ";")
	commas := strings.ReplaceAll(rows(func(i int) string { return fmt.Sprintf("%d.%03d/%d", 1+i%8, 37*i%1000, i%10) }),
		",", ";")
	commas = strings.ReplaceAll(commas, "/", ",")
	for name, c := range map[string]struct {
		text string
		form File     // of the draft
		note string   // of the draft
		bad  string   // error of the draft
		read string   // error of plainForm, "" for none
		lost [3]int   // fields of pay, city and pays without a meaning by plainForm
		also []string // more notes
	}{
		"plain":  {text: plain, note: "pay: whole numbers → range 1500 to 2400"},
		"BOM":    {text: bom + plain, note: "pay: whole numbers → range 1500 to 2400"},
		"CRLF":   {text: strings.ReplaceAll(plain, "\n", "\r\n"), note: "city: 2 spellings → levels"},
		"Excel,": {text: "sep=,\r\n" + plain, note: "pay: whole numbers → range 1500 to 2400"},
		"Excel;": {text: "sep=;\r\n" + semicolons, form: File{Delimiter: ";"}, note: "the file: \";\" between the fields",
			read: `line 1 says that ';' separates the fields, and the schema says ','`},
		"semicolons": {text: semicolons, form: File{Delimiter: ";"}, note: "the file: \";\" between the fields",
			read: `they would be with "file": {"delimiter": ";"} in the schema`},
		"tabs": {text: strings.ReplaceAll(plain, ",", "\t"), form: File{Delimiter: "\t"}, note: `the file: "\t" between`,
			read: `{"delimiter": "\t"}`},
		"decimal commas": {text: commas, form: File{Delimiter: ";", Decimal: ",", Thousands: "."},
			note: `pay: decimal commas and "." between thousands → range 1000 to 8900`, read: "delimiter"},
		"decimal commas in quotes": {text: rows(func(i int) string { return fmt.Sprintf("\"%d,5\"", i) }),
			form: File{Decimal: ","}, note: `pay: decimal commas → range 0 to 30`, lost: [3]int{30, 0, 0}},
		"thousands": {text: rows(func(i int) string { return fmt.Sprintf("\"%d,%03d.5\"", 1+i%8, 37*i%1000) }),
			form: File{Thousands: ","}, note: `pay: decimal points and "," between thousands → range 1000 to 8900`,
			lost: [3]int{30, 0, 0}},
		"Latin-1": {text: strings.ReplaceAll(plain, "ö", "\xf6"), form: File{Encoding: "latin-1"},
			note: "the file: not UTF-8 → \"encoding\": \"latin-1\"", lost: [3]int{0, 10, 0}},
		"windows-1252": {text: strings.ReplaceAll(plain, "Bern", "Ch\x92ing"), form: File{Encoding: "windows-1252"},
			bad: "", note: "the file: not UTF-8 → \"encoding\": \"windows-1252\"", lost: [3]int{0, 20, 0}},
		"Latin-1 name": {text: strings.ReplaceAll(plain, "city", "ci\xe9"), form: File{Encoding: "latin-1"},
			note: "cié: 2 spellings", read: "line 1 is not UTF-8"},
		"UTF-16": {text: "\xff\xfep\x00", bad: "the file is UTF-16", read: "the file is UTF-16"},
		"CR":     {text: strings.ReplaceAll(plain, "\n", "\r"), bad: "line 1 holds a carriage return (CR)", read: "(CR)"},
		"ragged": {text: plain + "SECRET,x\n", bad: "line 32: 2 fields, want 3; quote fields that contain ','",
			read: "line 32: 2 fields, want 3"},
		"a stopgap": {text: plain + "-999,Bern,no\n-999,Bern,no\n",
			note: `pay: whole numbers → range 1500 to 2400; "-999" in 2 rows looks like a missing value → listed in "missing"`},
		"a stopgap elsewhere": {text: plain + "99999,99999,no\n99999,Bern,no\n",
			note: `; "99999" in 2 rows looks like a missing value, but is a value of city → it counts as the nearest end`,
			lost: [3]int{0, 1, 0}},
		"a stopgap above": {text: plain + "9999,Bern,no\n9999,Bern,no\n", note: `range 1500 to 2400; "9999" in 2 rows looks`},
		"once":            {text: plain + "9999,Bern,no\n", note: "pay: whole numbers → range 1500 to 10000"},
		"words": {text: plain + "unknown,Bern,no\nn/a,Köln,no\n",
			note: `pay: whole numbers → range 1500 to 2400; "n/a", "unknown" (2 fields) are none and count as missing`,
			lost: [3]int{2, 0, 0}},
		"units": {text: rows(func(i int) string { return fmt.Sprintf("%d €", i/2) }),
			note: `pay: 15 spellings → levels; if fields such as "0 €" are numbers or dates, write them plainly`,
			lost: [3]int{30, 0, 0}},
		"ids": {text: rows(func(i int) string { return fmt.Sprint(5001 + i) }), note: "pay: unique in every row → ignored"},
		"people": {text: strings.Replace(rows(func(i int) string { return fmt.Sprint(907 * i) }), "pay,", "pay_id,", 1) +
			"0,Bern,no\n", note: `pay_id: 30 spellings in 31 rows → ignored; if it names people, add "person": "pay_id"`,
			read: "the file has no column \"pay\""},
		"names": {text: rows(func(i int) string { return fmt.Sprintf("p%d", i/2*2+i%2) }),
			note: "pay: unique in every row → ignored", lost: [3]int{30, 0, 0}},
		"dates": {text: rows(func(i int) string { return fmt.Sprintf("2024-02-%02d", 1+i%29) }), lost: [3]int{30, 0, 0},
			note: `pay: dates such as "2024-02-01" → days since 2000-01-01 by "date": "2006-01-02", 2024-02-01 to 2024-02-29`},
		"either dates": {text: rows(func(i int) string { return fmt.Sprintf("%d/%d/2024", 1+i%12, 1+i%11) }),
			note: `by "date": "1/2/2006"`, also: []string{`; check that it is not "2/1/2006"`}, lost: [3]int{30, 0, 0}},
		"compact dates": {text: rows(func(i int) string { return fmt.Sprintf("2024%02d01", 1+i%12) }),
			note: `by "date": "20060102"`},
		"either numbers": {text: rows(func(i int) string { return fmt.Sprintf("%d.%03d", 1+i%8, 37*i%1000) }),
			note: `; check that "1.000" is not written with decimal commas and "." between thousands`},
	} {
		t.Run(name, func(t *testing.T) {
			s, notes, err := Draft(strings.NewReader(c.text), Schema{})
			if c.bad != "" {
				require.ErrorContains(t, err, c.bad)
			} else {
				require.NoError(t, err)
				require.Equal(t, c.form, s.File)
				for _, want := range append(c.also, c.note) {
					require.Contains(t, strings.Join(notes, "\n"), want)
				}
				tally := &Tally{}
				_, err := Options{Public: true, Tally: tally}.ReadCSV(strings.NewReader(c.text), s)
				require.NoError(t, err)
				for _, k := range tally.Columns {
					if !strings.Contains(c.note, "none and count as missing") {
						require.Zero(t, k.Other, "%s %q", k.Name, k.Example)
					}
				}
			}
			tally := &Tally{}
			_, err = Options{Tally: tally}.ReadCSV(strings.NewReader(c.text), must(ReadSchema(strings.NewReader(plainForm))))
			if c.read != "" {
				require.ErrorContains(t, err, c.read)
				require.NotContains(t, err.Error(), "SECRET")
				return
			}
			require.NoError(t, err)
			for k, want := range c.lost {
				require.Equal(t, want, tally.Columns[k].Other, tally.Columns[k].Name)
				require.Empty(t, tally.Columns[k].Example, "a field of a private row")
			}
		})
	}
}

// TestDraftTwoWays: numbers that one file writes in two ways cannot all be read, which the draft
// says.
func TestDraftTwoWays(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "%d.%d;%d,%d;%d,5;%d\n", i, i%10, i, i%10, i%7, i%2)
	}
	s, notes, err := Draft(strings.NewReader("a;b;c;y\n"+b.String()), Schema{})
	require.NoError(t, err)
	require.Equal(t, ",", s.File.Decimal)
	require.Contains(t, strings.Join(notes, "\n"),
		"a: unique in every row → ignored; its numbers have decimal points, those of the file decimal commas: write all")
}

// TestDraftChoices checks choices between forms that read a file equally well.
func TestDraftChoices(t *testing.T) {
	var semicolons, commas, label strings.Builder
	for i := range 30 {
		fmt.Fprintf(&semicolons, "%d,%03d;%d\n", 1+i%9, 37*i%1000, i%2)
		fmt.Fprintf(&commas, "\"%d,%03d\",%d\n", 1+i%9, 37*i%1000, i%2)
		fmt.Fprintf(&label, "%d,%d\n", []int{1000 + i, -999}[i/28], []int{1, 2, -999}[i%3])
	}
	for _, c := range []struct {
		text, note string
		file       File
	}{
		{"a,b;y\n" + semicolons.String(), `a,b: decimal commas → range 1 to 10; check that "1,000" is not written with ` +
			`decimal points and "," between thousands`, File{Delimiter: ";", Decimal: ","}},
		{"a,y\n" + commas.String(), `a: decimal points and "," between thousands → range 1000 to 10000; check that "1,000" ` +
			`is not written with decimal commas`, File{Thousands: ","}},
		{"a,y\n" + label.String(), `"-999" in 2 rows looks like a missing value, but is a value of y`, File{}},
	} {
		s, notes, err := Draft(strings.NewReader(c.text), Schema{})
		require.NoError(t, err)
		require.Equal(t, c.file, s.File)
		require.Contains(t, strings.Join(notes, "\n"), c.note)
	}
}

// TestDraftDeclared checks that a draft keeps a form that is declared, whatever the rows look like.
func TestDraftDeclared(t *testing.T) {
	file := File{Delimiter: ",", Encoding: "latin-1", Decimal: ","}
	s, _, err := Draft(strings.NewReader("a;b,x,y\n1.5,2.5,0\n1.7,\xc3\xbc,1\n"), Schema{File: file})
	require.NoError(t, err)
	require.Equal(t, file, s.File)
	require.Equal(t, []string{"1.5", "1.7"}, s.Columns[0].Levels, "no numbers with decimal commas")
	require.Equal(t, []string{"2.5", "Ã¼"}, s.Columns[1].Levels)
	_, _, err = Draft(strings.NewReader("x,y\n"+strings.Repeat("a,1\n", sniffed/4)+"\xfc,0\n"), Schema{})
	require.ErrorContains(t, err, `line 262146, column 1: "\xfc" is not UTF-8: declare "file": {"encoding": "latin-1"}`)
}
