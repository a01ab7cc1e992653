// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

const people = `{ "schema": 1, "records": 30000, "neighbors": "replace",
  "label": {"column": "income", "positive": [">50K", ">50K."], "negative": ["<=50K"]},
  "intercept": true,
  "missing": ["?", ""],
  "columns": [
    {"name": "age", "min": 17, "max": 90, "bins": [25, 30, 35]},
    {"name": "hours", "min": 1, "max": 99},
    {"name": "education", "levels": ["Bachelors", "HS-grad"], "other": true, "missing": true},
    {"name": "id", "ignore": true} ] }`

func TestReadSchema(t *testing.T) {
	s, err := ReadSchema(strings.NewReader(bom + people))
	require.NoError(t, err)
	require.Equal(t, 30000, s.Records)
	require.Equal(t, dp.Replace, s.Neighbors)
	require.Equal(t, []float64{25, 30, 35}, s.Columns[0].Bins)
	require.Equal(t, 99.0, *s.Columns[1].Max)

	var text bytes.Buffer
	n, err := s.WriteTo(&text)
	require.NoError(t, err)
	require.EqualValues(t, text.Len(), n)
	again, err := ReadSchema(&text)
	require.NoError(t, err)
	require.Equal(t, s, again)
}

// TestReadSchemaErrors checks that every error names the place, the value and a valid replacement.
func TestReadSchemaErrors(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"schema": 1`, `"schema": 2`, "schema: version 2, want \"schema\": 1"},
		{`"intercept": true`, `"rows": 5`, `rows: 5 without "person": name the column of ids`},
		{`"intercept": true`, `"weights": "rows"`, `weights: "rows" without "person"`},
		{`"intercept": true`, `"person": "id"`, "rows: not declared, want the most lines of a person"},
		{`"intercept": true`, `"person": "id", "rows": -1`, "rows: -1, want the most lines of a person"},
		{`"intercept": true`, `"person": "id", "rows": 1025`, "rows: 1025, want the most lines of a person that count"},
		{`"intercept": true`, `"person": "income", "rows": 5`, `person: "income" is also label.column`},
		{`"intercept": true`, `"person": "age", "rows": 5`, `person: "age" is also a feature, columns[0]: want`},
		{`"intercept": true`, `"person": " id", "rows": 5`, `person: " id" begins or ends with blanks`},
		{`"intercept": true`, `"person": "id", "rows": 5, "weights": "lines"`, `weights: "lines", want one`},
		{`"records": 30000`, `"records": -1`, "records: -1, want the public number"},
		{`"records": 30000`, `"records": 1.5`, `records: the number "1.5", want a whole number`},
		{`"replace"`, `"swap"`, `neighbors: dp: invalid relation: "swap", want "replace" or "add-remove"`},
		{`"min": 1,`, `"mim": 1,`, `columns[1]: unknown key "mim", want one of name, min, max`},
		{`"min": 1,`, `"Min": 1,`, `columns[1]: unknown key "Min"`},
		{`"min": 1,`, `"min": 1, "min": 2,`, "columns[1].min: the key stands twice"},
		{`"min": 1,`, `"min": "1",`, `columns[1].min: the string "1", want a number without quotes`},
		{`"min": 1,`, `"min": null,`, "columns[1].min: null, want a number"},
		{`"min": 1,`, `"min": 1e999,`, `columns[1].min: the number "1e999", want a number`},
		{`"min": 1,`, ``, "columns[1].min: not declared, want the least value"},
		{`"min": 1,`, `"min": 99,`, "columns[1].min: 99 is not below max = 99"},
		{`"max": 99`, `"max": 1e308`, "columns[1].max: 1e+308, want a finite number"},
		{`"max": 99`, `"max": 99, "weight": -1`, "columns[1].weight: -1, want a number from 1e-06 to 1e+06"},
		{`"min": 1, "max": 99`, `"min": 0, "max": 1e-310`, "columns[1].max: 1e-310 is too near to min = 0"},
		{`"min": 1, "max": 99`, `"weight": 2`, `"hours" has neither "min" and "max" nor "levels"`},
		{`[25, 30, 35]`, `[25, 25, 35]`, "columns[0].bins[1]: 25 after 25, want increasing edges"},
		{`[25, 30, 35]`, `[17]`, "columns[0].bins[0]: 17, want an edge between min = 17 and max = 90"},
		{`[25, 30, 35]`, `[]`, "columns[0].bins: empty"},
		{`[25, 30, 35]`, `7`, `columns[0].bins: the number "7", want a list`},
		{`"HS-grad"]`, `"Bachelors"]`, `columns[2].levels[1]: "Bachelors" is also in columns[2].levels[0]`},
		{`"HS-grad"]`, `"?"]`, `columns[2].levels[1]: "?" is also in missing`},
		{`"HS-grad"]`, `" HS"]`, `columns[2].levels[1]: " HS" begins or ends with blanks`},
		{`"HS-grad"]`, `""]`, `columns[2].levels[1]: empty, want a spelling`},
		{`["Bachelors", "HS-grad"]`, `[]`, "columns[2].levels: empty"},
		{`"levels": ["Bachelors", "HS-grad"]`, `"levels": ["a"], "min": 1`, `"education" has a range and levels`},
		{`"levels": ["Bachelors", "HS-grad"]`, `"levels": ["a"], "bins": [1]`, `columns[2].bins: "education" has levels`},
		{`"ignore": true`, `"ignore": true, "other": true`, `columns[3]: "id" is ignored and has other keys`},
		{`"ignore": true`, `"ignore": "yes"`, `columns[3].ignore: the string "yes", want true or false`},
		{`["Bachelors", "HS-grad"]`, `["Bachelors", "HS-grad"], "reference": "PhD"`,
			`columns[2].reference: "PhD" is no level or bin of "education", want one of "Bachelors", "HS-grad"`},
		{`"levels": ["Bachelors", "HS-grad"], "other": true, "missing": true`, `"levels": ["a"], "reference": "a"`,
			`columns[2].reference: "a" is the only level of "education"`},
		{`"min": 1, "max": 99`, `"min": 1, "max": 99, "reference": "5"`,
			`columns[1].reference: "hours" has neither levels nor bins`},
		{`"ignore": true`, `"cross": ["age", "education"], "other": true`, `columns[3]: "id" has "cross" and a range`},
		{`"ignore": true`, `"cross": ["age", "education"], "ignore": true`, `columns[3]: "id" is ignored and has other keys`},
		{`"ignore": true`, `"cross": ["age"]`, "columns[3].cross: 1 column, want at least 2"},
		{`"ignore": true`, `"cross": []`, "columns[3].cross: 0 columns, want at least 2"},
		{`"ignore": true`, `"cross": ["age", "age"]`, `columns[3].cross[1]: "age" stands twice`},
		{`"ignore": true`, `"cross": ["age", "id"]`, `columns[3].cross[1]: "id" is no column that stands before this one`},
		{`"ignore": true`, `"cross": ["age", "income"]`, `columns[3].cross[1]: "income" is no column`},
		{`"ignore": true`, `"cross": ["hours", "age"]`, `columns[3].cross[0]: "hours" has neither levels nor bins`},
		{`"ignore": true}`, `"cross": ["age", "education"]}, {"name": "b", "cross": ["age", "id"]}`,
			`columns[4].cross[1]: "id" is an interaction itself`},
		{`"name": "id"`, `"name": "age"`, `columns[3].name: "age" is also columns[0].name`},
		{`"name": "id"`, `"name": "income"`, `columns[3].name: "income" is also label.column`},
		{`"name": "id"`, `"name": ""`, "columns[3].name: empty"},
		{`["<=50K"]`, `[">50K"]`, `label.negative[0]: ">50K" is also in label.positive[0]`},
		{`["<=50K"]`, `["?"]`, `label.negative[0]: "?" is also in missing`},
		{`["<=50K"]`, `[]`, "label.negative: empty"},
		{`["<=50K"]`, `["<=50K"], "levels": ["a", "b"]`, "label: 2 kinds of label, want one"},
		{`["<=50K"]`, `["<=50K"], "unknown": "drop"`, `label.unknown: "drop": dropping records would change their number`},
		{`["<=50K"]`, `["<=50K"], "unknown": "no"`, `label.unknown: "no", want one of "positive", "negative"`},
		{`"intercept": true`, `"intercept": true, "file": {"delimiter": "ab"}`, `file.delimiter: "ab", want one of`},
		{`"intercept": true`, `"intercept": true, "file": {"delimiter": "."}`, `file.delimiter: ".", want one of`},
		{`"intercept": true`, `"intercept": true, "file": {"comment": "\""}`, `file.comment`},
		{`"intercept": true`, `"intercept": true, "file": {"fields": ["age", "age"]}`, `file.fields[1]: "age" stands twice`},
		{`"intercept": true`, `"intercept": true, "file": {"fields": ["age", "size"]}`,
			`file.fields[1]: "size" is not declared: add {"name": "size", "ignore": true}`},
		{`["?", ""]`, `["?", "?"]`, `missing[1]: "?" is also in missing[0]`},
		{`"columns"`, `"column"`, `the schema: unknown key "column"`},
		{`} ] }`, `} ] } {}`, "text after the closing brace"},
		{`} ] }`, `} ]`, "the JSON text ends too early"},
		{`"intercept": true,`, `"intercept": true`, "line 4: not JSON, want one object"},
	} {
		require.Contains(t, people, c.old)
		_, err := ReadSchema(strings.NewReader(strings.Replace(people, c.old, c.new, 1)))
		require.ErrorIs(t, err, ErrSchema, c.new)
		require.ErrorContains(t, err, c.want)
	}
	_, err := ReadSchema(nil)
	require.ErrorIs(t, err, ErrSchema)
	_, err = ReadSchema(strings.NewReader(`{"schema": 1, "label": {"column": "y", "min": 0, "max": 1}, ` +
		`"columns": [{"name": "x", "ignore": true}]}`))
	require.ErrorContains(t, err, "columns: all are ignored")
	require.ErrorIs(t, (*Schema)(nil).Check(), ErrSchema)
	_, err = (*Schema)(nil).Encoder()
	require.ErrorIs(t, err, ErrSchema)
}

// FuzzReadSchema checks that any text is refused with ErrSchema, or makes an encoder whose schema
// is written and read back unchanged.
func FuzzReadSchema(f *testing.F) {
	f.Add(people)
	f.Add(regression)
	f.Add(`{"schema":1,"label":{"column":"y","levels":["a","b"]},` +
		`"columns":[{"name":"x","min":-1e300,"max":1e300,"weight":1e-6}]}`)
	f.Add(strings.Replace(people, `"ignore": true`, `"cross": ["age", "education"]`, 1))
	f.Add(`{"schema":1,"schema":1}`)
	f.Add(`[[[[`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadSchema(strings.NewReader(text))
		if err != nil {
			require.ErrorIs(t, err, ErrSchema)
			require.Nil(t, s)
			return
		}
		e, err := s.Encoder()
		require.NoError(t, err)
		require.NotEmpty(t, e.Features())
		require.LessOrEqual(t, exactNorm(e), 0)
		one, err := json.Marshal(s)
		require.NoError(t, err)
		again, err := ReadSchema(bytes.NewReader(one))
		require.NoError(t, err)
		two, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(one), string(two))
	})
}

// TestSchemaDocs checks that the documentation of schemas names every key, and that its examples
// are schemas, which together use all keys that people write.
func TestSchemaDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/schema.md")
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(text, []byte{'\n'}), 200)
	examples := regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllSubmatch(text, -1)
	require.NotEmpty(t, examples)
	used := ""
	for _, m := range examples {
		_, err := ReadSchema(bytes.NewReader(m[1]))
		require.NoError(t, err, string(m[1]))
		used += string(m[1])
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Schema](), reflect.TypeFor[Discovered]()} {
		for _, key := range keys(of) {
			require.Contains(t, string(text), "`"+key+"`")
			if key != "discovery" && of == reflect.TypeFor[Schema]() { // people do not write what a search released
				require.Contains(t, used, `"`+key+`":`)
			}
		}
	}
}

// keys returns the JSON keys of a struct and of those inside it, but not behind a pointer.
func keys(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, key)
		in := f.Type
		if in.Kind() == reflect.Slice {
			in = in.Elem()
		}
		if in.Kind() == reflect.Struct {
			out = append(out, keys(in)...)
		}
	}
	return out
}
