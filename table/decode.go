// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decode stores JSON in v, a pointer to a struct, as json.Unmarshal does. It refuses unknown and
// repeated keys, null, wrong types and text after the value, and names the place of each.
func decode(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	w := &walker{dec: dec, text: text}
	if err := w.value(reflect.TypeOf(v).Elem(), ""); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: text after the closing brace, want one object", w.line(dec.InputOffset()))
	}
	return json.Unmarshal(text, v)
}

type walker struct {
	dec  *json.Decoder
	text []byte
}

func (w *walker) line(offset int64) int {
	return 1 + bytes.Count(w.text[:min(int(offset), len(w.text))], []byte{'\n'})
}

func (w *walker) token() (json.Token, error) {
	tok, err := w.dec.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		var all any
		errors.As(json.Unmarshal(w.text, &all), &syntax) // its offset is exact
		return nil, fmt.Errorf("line %d: not JSON, want one object: %w", w.line(syntax.Offset), err)
	case err != nil:
		return nil, fmt.Errorf("line %d: the JSON text ends too early, want one object", w.line(w.dec.InputOffset()))
	}
	return tok, nil
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// value reads the next value, which has to fit t.
func (w *walker) value(t reflect.Type, path string) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	tok, err := w.token()
	if err != nil {
		return err
	}
	at := cmp.Or(path, "the schema")
	refuse := func(want string) error { return fmt.Errorf("%s: %s, want %s", at, describe(tok), want) }
	if reflect.PointerTo(t).Implements(textUnmarshaler) {
		s, ok := tok.(string)
		if !ok {
			return refuse("a string")
		}
		if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		if tok != json.Delim('{') {
			return refuse("an object")
		}
		return w.object(t, path)
	case reflect.Slice:
		if tok != json.Delim('[') {
			return refuse("a list in brackets")
		}
		for i := 0; w.dec.More(); i++ {
			if err := w.value(t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		_, err := w.token()
		return err
	}
	_, text := tok.(string)
	_, truth := tok.(bool)
	n, _ := tok.(json.Number) // "" is no number
	_, whole := strconv.Atoi(n.String())
	_, number := n.Float64()
	switch kind := t.Kind(); {
	case kind == reflect.String && !text:
		return refuse("a string in quotes")
	case kind == reflect.Bool && !truth:
		return refuse("true or false")
	case kind == reflect.Int && whole != nil:
		return refuse("a whole number")
	case kind == reflect.Float64 && number != nil:
		return refuse("a number without quotes, at most 1e300")
	}
	return nil
}

// object reads the rest of an object behind its opening brace.
func (w *walker) object(t reflect.Type, path string) error {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	seen := map[string]bool{}
	for w.dec.More() {
		tok, err := w.token()
		if err != nil {
			return err
		}
		key, _ := tok.(string)
		at := strings.TrimPrefix(path+"."+key, ".")
		field := slices.Index(keys, key)
		switch {
		case field < 0:
			return fmt.Errorf("%s: unknown key %s, want one of %s", cmp.Or(path, "the schema"), quote(key),
				strings.Join(keys, ", "))
		case seen[key]:
			return fmt.Errorf("%s: the key stands twice, want it once", at)
		}
		seen[key] = true
		if err := w.value(t.Field(field).Type, at); err != nil {
			return err
		}
	}
	_, err := w.token()
	return err
}

func describe(tok json.Token) string {
	switch v := tok.(type) {
	case nil:
		return "null"
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '[': "a list"}[v]
	case string:
		return "the string " + quote(v)
	case json.Number:
		return "the number " + quote(v.String())
	}
	return fmt.Sprint(tok)
}
