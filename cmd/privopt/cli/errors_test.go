// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadFiles gives each command each file that it cannot use. The error has one prefix, the
// command, names the file, and says what is wrong; the exit code is as documented.
func TestBadFiles(t *testing.T) {
	at := folder(t)
	code, _, errs := call(t, "", "fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "5",
		"--out", at("model.json"))
	require.Equal(t, 0, code, errs)
	code, _, errs = call(t, "", "ledger", "create", at("l"), "--epsilon", "1")
	require.Equal(t, 0, code, errs)
	for name, text := range map[string]string{
		"fields.csv": "age,job,pays\n1,2,3,4\n", "quote.csv": "age,job,pays\n\"x,yes\n", "columns.csv": "a,b\n1,2\n",
		"cut.json": `{"schema": 1`, "number.json": "17", "empty": "",
	} {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	tables := []string{"fields.csv", "quote.csv", "columns.csv", "empty", "nosuch", "."}
	schemas := []string{"cut.json", "number.json", "empty", "model.json", "l", "nosuch", "."}
	models := []string{"cut.json", "number.json", "empty", "people.json", "l", "nosuch", "."}
	ledgers := []string{"number.json", "people.json", "model.json", "nosuch", "."}
	for _, c := range []struct {
		files   []string
		command string // BAD stands for the file
	}{
		{tables, "fit --schema people.json --data BAD --epsilon 3 --out x"},
		{tables, "predict --model model.json --data BAD"},
		{tables, "score --model model.json --data BAD"},
		{tables, "score --model model.json --data BAD --epsilon 1"},
		{tables, "pack --schema people.json --data BAD --out x.npy"},
		{tables[:2], "schema --public BAD --label pays"},
		{tables[3:], "schema --private BAD --label pays --epsilon 1"},
		{schemas, "plan --schema BAD --epsilon 1"},
		{schemas, "fit --schema BAD --data people.csv --epsilon 1 --out x"},
		{schemas, "pack --schema BAD --data people.csv --out x.npy"},
		{models, "predict --model BAD --data new.csv"},
		{models, "score --model BAD --data people.csv"},
		{models, "plan --score --model BAD --epsilon 1 --records 9"},
		{models, "summary BAD"},
		{models, "explain BAD"},
		{models, "ledger verify l BAD"},
		{ledgers, "ledger show BAD"},
		{ledgers, "ledger verify BAD"},
		{ledgers, "fit --schema people.json --data people.csv --epsilon 1 --out x --ledger BAD"},
	} {
		for _, bad := range c.files {
			args := strings.Fields(strings.ReplaceAll(c.command, "BAD", bad))
			for i, arg := range args {
				if _, err := os.Stat(at(arg)); err == nil || arg == bad || strings.HasPrefix(arg, "x") {
					args[i] = at(arg)
				}
			}
			code, out, errs := call(t, "", args...)
			about := c.command + " with " + bad + ": " + errs
			switch {
			case bad == "nosuch":
				require.Equal(t, exitFailure, code, about)
			case strings.HasPrefix(c.command, "ledger") || strings.Contains(c.command, "--ledger"):
				require.Contains(t, []int{exitFailure, exitUsage, exitRefused}, code, about)
			default:
				require.Equal(t, exitUsage, code, about)
			}
			require.NotContains(t, out, "\n\n", about)
			require.Equal(t, 1, strings.Count(errs, "\n"), about)
			require.Contains(t, errs, filepath.Base(at(bad)), about)
			for _, chain := range []string{"invalid ", "table: ", "npy: ", "open "} {
				require.NotContains(t, strings.ReplaceAll(errs, at(""), ""), chain, about)
			}
			head, _, _ := strings.Cut(errs, " want ")
			require.LessOrEqual(t, strings.Count(head, ": "), 4, about) // command: file: place: mistake: value
			for kind, of := range map[string]string{"people.json": "a schema", "model.json": "a model", "l": "a ledger"} {
				if bad == kind {
					require.Contains(t, errs, of, about)
				}
			}
		}
	}
}
