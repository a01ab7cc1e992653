// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/table"
)

// TestSchemaHelp checks that the help names every key that a schema may have.
func TestSchemaHelp(t *testing.T) {
	_, out, _ := call(t, "", "schema", "-h")
	words := strings.FieldsFunc(out, func(r rune) bool { return strings.ContainsRune(" ,\n.:", r) })
	for _, of := range []reflect.Type{reflect.TypeFor[table.Schema](), reflect.TypeFor[table.File](),
		reflect.TypeFor[table.Label](), reflect.TypeFor[table.Column]()} {
		for i := range of.NumField() {
			key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			require.Contains(t, words, key)
		}
	}
}

// TestSchemaDraft checks that a draft from public rows reports on standard error what it saw, that
// its schema fits the file from which it was drafted, and that flags declare the form otherwise.
func TestSchemaDraft(t *testing.T) {
	at := folder(t)
	put := func(name, text string) string {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
		return at(name)
	}
	var b strings.Builder
	b.WriteString("sep=;\r\nname;since;pay;city;stays\r\n")
	for i := range 300 {
		b.WriteString(strings.Join([]string{"n" + strings.Repeat("x", i),
			[]string{"24.12.2014", "1.7.2021"}[i%2], []string{"1.234,5", "2.345,6", "12.000,0"}[i%3],
			[]string{"K\xf6ln", "Bern"}[i%2], []string{"ja", "nein"}[i/2%2]}, ";") + "\r\n")
	}
	file := put("de.csv", b.String())
	code, out, errs := call(t, "", "schema", "--public", file, "--records", "300", "--out", at("de.json"))
	require.Equal(t, 0, code, errs)
	require.Empty(t, out)
	for _, want := range []string{`the file: not UTF-8 → "encoding": "latin-1"`, "name: unique in every row → ignored",
		`since: dates such as "1.7.2021" → days since 2000-01-01 by "date": "2.1.2006"`,
		`pay: decimal commas and "." between thousands → range 1000 to 12000`, "city: 2 spellings → levels",
		`stays, the label: 2 spellings → positive "nein", negative "ja"`} {
		require.Contains(t, flat(errs), want)
	}
	code, _, errs = call(t, "", "fit", "--schema", at("de.json"), "--data", file, "--epsilon", "1", "--public", "--out",
		at("m.json"))
	require.Equal(t, 0, code, errs)
	require.Contains(t, errs, "Every field has a value that the schema declares.")

	// A private search has to be told.
	search := []string{"schema", "--private", file, "--label", "stays", "--epsilon", "5", "--out", at("found.json")}
	code, _, errs = call(t, "", search...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, `want "file": {"delimiter": ";"}`)
	code, _, errs = call(t, "", append(search, "--delimiter", ";", "--encoding", "latin-1", "--decimal", ",",
		"--thousands", ".")...)
	require.Equal(t, 0, code, errs)
	found := must(os.ReadFile(at("found.json")))
	require.Contains(t, found, "Köln")
	require.Regexp(t, `"name": "pay",\s+"min"`, found)
	code, _, errs = call(t, "", append(search, "--decimal", ";", "--force")...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, `file.decimal: ";", want "." or ","`)
}
