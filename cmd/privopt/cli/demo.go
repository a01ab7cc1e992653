// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/internal/screen"
)

// demoTable is a made-up table of stays in a hospital; the tests hold the program that makes it.
//
//go:embed demo.csv.gz
var demoTable []byte

// demoPeople is the number of patients in visits.csv. The others are in heldout.csv.
const demoPeople = 5000

// demoFactors is the schema of the second model: four columns with ranges that anybody knows.
const demoFactors = `{ "schema": 1, "records": 5000, "neighbors": "add-remove", "person": "patient", "rows": 12,
  "label": {"column": "readmitted", "positive": ["yes"], "negative": ["no"]},
  "intercept": true, "missing": ["", "NA"],
  "columns": [
    {"name": "admitted", "ignore": true},
    {"name": "age", "min": 20, "max": 90},
    {"name": "weight", "min": 40, "max": 140},
    {"name": "smoker", "levels": ["no", "yes"]},
    {"name": "region", "ignore": true},
    {"name": "days", "min": 1, "max": 12} ] }
`

// demoStep is a command of the demonstration, and the sentence before it.
type demoStep struct{ about, command string }

// demoSteps returns the commands of the demonstration, as one types them in its folder.
func demoSteps() []demoStep {
	const visits = " --data visits.csv --epsilon 1 --ledger patients.ledger --out "
	search := demoStep{"Nobody has written down ranges and levels of the columns: find them privately.",
		"schema --private visits.csv --label readmitted --task two-classes --person patient --rows 12 " +
			"--ignore admitted --records 5000 --neighbors add-remove --epsilon 0.5 --ledger patients.ledger " +
			"--out schema.json"}
	score := demoStep{"How good is it on 1,000 patients that it has not seen? Privately, too.",
		"score --model model.json --data heldout.csv --records 1000 --epsilon 1 " +
			"--plot score.svg --out score.json"}
	report := demoStep{"All of it for somebody who has never heard of ε.",
		"report --model model.json --score score.json --ledger patients.ledger --out report.html"}
	return []demoStep{
		{"A ledger adds up what is spent on these patients, and refuses more than ε = 4.",
			"ledger create patients.ledger --epsilon 4 --delta 1e-6 --neighbors add-remove --persons"},
		search,
		{"Fit a model: will a patient be back within 30 days? ε is for all stays.",
			"fit --schema schema.json" + visits + "model.json"},
		{"Predict for four new stays.", "predict --model model.json --data new.csv"},
		score,
		{"Which columns matter, and how surely? A smaller model, with intervals.",
			"fit --schema factors.json --intervals" + visits + "factors-model.json"},
		{"", "summary factors-model.json"},
		{"What has been spent?", "ledger show patients.ledger"},
		report,
	}
}

// demoFiles are the files of the demonstration.
var demoFiles = []string{"visits.csv", "heldout.csv", "new.csv", "factors.json", "schema.json", "patients.ledger",
	"model.json", "factors-model.json", "score.json", "score.svg", "report.html"}

func (a *app) demo() *cobra.Command {
	dir, force := "privopt-demo", false
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show everything on a made-up table that comes with the program",
		Long: `Show everything on a made-up table that comes with the program.

demo writes a table of stays in a hospital to a folder, several lines a patient, and runs
the commands that lead from there to a private model, its score and a report. It prints
each command as one types it, and what the command prints. It needs no data and no network.`,
		Example: `  privopt demo
  privopt demo --out elsewhere --force`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if a.json {
				return usagef("--json: demo prints text only")
			}
			return a.runDemo(ctx, dir, force)
		}),
	}
	outFlags(c, &dir, &force, "new `FOLDER` to write to")
	c.Flags().Lookup("force").Usage = "replace the files of an earlier demonstration"
	return c
}

func (a *app) runDemo(ctx context.Context, dir string, force bool) (err error) {
	if dir == "" || dir == "-" {
		return usagef("--out %q: want the name of a folder", dir)
	}
	tables, err := demoTables()
	if err != nil {
		return err
	}
	if err := clearDemo(dir, force); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usagef("--out: %w", err)
	}
	defer func() { err = errors.Join(err, listDemo(dir)) }()
	for name, text := range tables {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	old, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Chdir(old)) }()
	if err := a.demoHead(dir); err != nil {
		return err
	}
	for _, s := range demoSteps() {
		if s.about != "" {
			s.about = "\n# " + s.about
		}
		command := screen.Commands("$ privopt "+s.command, screen.Out())
		if _, err := fmt.Fprintf(a.stdout, "%s\n%s", s.about, command); err != nil {
			return err
		}
		if code := Run(ctx, strings.Fields(s.command), strings.NewReader(""), a.stdout, a.stderr); code != exitOK {
			if err := ctx.Err(); err != nil {
				return err
			}
			return fmt.Errorf("the last command ended with exit code %d", code)
		}
	}
	var made []string
	for _, name := range demoFiles {
		if _, err := os.Stat(name); err == nil && strings.Contains(".html.svg", filepath.Ext(name)) {
			made = append(made, filepath.Join(dir, name))
		}
	}
	if made == nil {
		made = []string{dir}
	}
	_, err = io.WriteString(a.stdout, "\n"+paragraph("", "Look at "+strings.Join(made, " and ")+"."))
	return err
}

// demoList is the file with the digests of the files that a demonstration made, as sha256sum writes
// them, after a first line of its own.
const demoList, demoListed = ".privopt-demo", "# files that privopt demo made\n"

// demoLine returns the line of a file in demoList.
func demoLine(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	return fmt.Sprintf("%x  %s\n", sha256.Sum256(text), name), err
}

// listDemo writes the list of the files that are there, also after a step that failed.
func listDemo(dir string) error {
	list := demoListed
	for _, name := range demoFiles {
		if line, err := demoLine(dir, name); err == nil {
			list += line
		}
	}
	return os.WriteFile(filepath.Join(dir, demoList), []byte(list), 0o644)
}

// clearDemo removes the files of an earlier demonstration with force. It refuses all of them if a
// file is in the way that no demonstration made, or that has changed since.
func clearDemo(dir string, force bool) error {
	list, _ := os.ReadFile(filepath.Join(dir, demoList))
	var found []string
	for _, name := range append(slices.Clone(demoFiles), demoList) {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if !force {
			return usagef("--out: %s exists: choose another folder, or --force to replace the files of a demonstration", path)
		}
		line, err := demoLine(dir, name)
		if name == demoList {
			line = demoListed
		}
		if err != nil || !strings.Contains(string(list), line) {
			return usagef("--out: %s was not made by a demonstration, or has changed since, and --force replaces nothing else: "+
				"choose another folder", path)
		}
		found = append(found, path)
	}
	for _, path := range found {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// demoTables returns the tables and schemas of the demonstration, by name.
func demoTables() (map[string]string, error) {
	z, err := gzip.NewReader(bytes.NewReader(demoTable))
	if err != nil {
		return nil, err
	}
	table, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	head, rest, _ := strings.Cut(string(table), "\n")
	cut := strings.Index(rest, fmt.Sprintf("P%04d,", demoPeople+1))
	files := map[string]string{
		"visits.csv":   head + "\n" + rest[:cut],
		"heldout.csv":  head + "\n" + rest[cut:],
		"factors.json": demoFactors,
	}
	var fresh strings.Builder
	lines := bufio.NewScanner(strings.NewReader(files["heldout.csv"]))
	for i := 0; i < 5 && lines.Scan(); i++ {
		line := lines.Text()
		fresh.WriteString(line[:strings.LastIndex(line, ",")] + "\n")
	}
	files["new.csv"] = fresh.String()
	return files, nil
}

// demoHead says where the demonstration is, and shows the first lines of its table.
func (a *app) demoHead(dir string) error {
	text, err := os.ReadFile("visits.csv")
	if err != nil {
		return err
	}
	lines := strings.SplitAfterN(string(text), "\n", 5)
	_, err = fmt.Fprintf(a.stdout, "# Made-up stays of %s patients in a hospital. These are the first.\n$ cd %s\n"+
		"$ head -n 4 visits.csv\n%s", humanize.Comma(demoPeople), dir, strings.Join(lines[:4], ""))
	return err
}
