// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/privopt/privopt/cmd/research/experiment"
)

func readCSV(path string) ([][]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(bytes.NewReader(raw)).ReadAll()
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("no header")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// output holds the products of a job: the table JOB.csv, the table JOB-slopes.csv, and other files
// by name.
type output struct {
	table, slopes [][]string
	files         map[string][]byte
}

// add adds a table, if there is one, under a name without extension.
func (o *output) add(name string, table [][]string) {
	if table != nil {
		o.put(name+".csv", text(table))
	}
}

func (o *output) put(name string, data []byte) {
	if o.files == nil {
		o.files = map[string][]byte{}
	}
	o.files[name] = data
}

// take adds a file under a name.
func (o *output) take(name, path string) error {
	data, err := os.ReadFile(path)
	o.put(name, data)
	return err
}

// only returns the one file of a folder with the extension.
func only(dir, ext string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*"+ext))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%s holds %d files %s, want one", dir, len(found), ext)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// collectSweeps puts the tables of all parts under one another, without their times, and the slopes
// of their summaries.
func collectSweeps(j job, folders []string) (*output, error) {
	out := &output{}
	for i, dir := range folders {
		path, err := only(dir, ".csv")
		if err != nil {
			return nil, err
		}
		rows, err := readCSV(path)
		if err != nil {
			return nil, err
		}
		for k, row := range rows {
			var kept []string
			if len(folders) > 1 {
				kept = append(kept, map[bool]string{true: "part", false: j.parts[i].name}[k == 0])
			}
			for c, field := range row {
				if !strings.Contains(rows[0][c], "seconds") {
					kept = append(kept, field)
				}
			}
			if k > 0 || i == 0 {
				out.table = append(out.table, kept)
			} else if !slices.Equal(kept, out.table[0]) {
				return nil, fmt.Errorf("part %s has the columns %v, want %v", j.parts[i].name, kept, out.table[0])
			}
		}
		slopes, err := slopesOf(j.parts[i].name, dir)
		if err != nil {
			return nil, err
		}
		out.slopes = append(out.slopes, slopes...)
	}
	return out, nil
}

// collectPublished adds the published means to the table: those of fig2/reference.csv at the
// same half-width, and how many standard errors lie between.
func collectPublished(j job, folders []string) (*output, error) {
	out, err := collectSweeps(j, folders)
	if err != nil {
		return nil, err
	}
	reference, err := readCSV(filepath.Join(os.Getenv("PRIVOPT_DATA"), "fig2", "reference.csv"))
	if err != nil {
		return nil, err
	}
	at := map[string]float64{} // "KAPPA COLUMN", KAPPA to six digits
	key := func(kappa float64, column string) string {
		return strconv.FormatFloat(kappa, 'e', 5, 64) + " " + column
	}
	for _, r := range reference[1:] {
		x, err := floats(r)
		if err != nil {
			return nil, err
		}
		for c, name := range reference[0] {
			at[key(x[0], strings.ReplaceAll(name, "_", "-"))] = x[c]
		}
	}
	rows := out.table
	rows[0] = append(rows[0], "reference", "z")
	for i, r := range rows[1:] {
		column := func(name string) string { return r[slices.Index(rows[0], name)] }
		x, err := floats([]string{column("value"), column("mean"), column("stderr")})
		if err != nil {
			return nil, err
		}
		method := column("method")
		want, ok := at[key(x[0], method)]
		if !ok {
			rows[i+1] = append(r, "", "")
			continue
		}
		se := math.Hypot(x[2], at[key(x[0], method+"-sd")]/math.Sqrt(10)) // each a mean of 10 runs
		rows[i+1] = append(r, figure4(want), figure4((x[1]-want)/se))
	}
	return out, nil
}

func floats(fields []string) ([]float64, error) {
	x := make([]float64, len(fields))
	for i, f := range fields {
		var err error
		if x[i], err = strconv.ParseFloat(f, 64); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// slopesOf reads the slopes of a summary: numbers, or objects with an interval.
func slopesOf(part, dir string) ([][]string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		return nil, err
	}
	var s struct {
		Results struct {
			Slopes map[string]json.RawMessage `json:"slopes"`
		} `json:"results"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	var rows [][]string
	for _, m := range slices.Sorted(maps.Keys(s.Results.Slopes)) {
		var x float64
		var with struct{ Slope, Low, High float64 }
		row := []string{part, m, "", "", ""}
		switch v := s.Results.Slopes[m]; {
		case json.Unmarshal(v, &x) == nil:
			row[2] = figure4(x)
		case json.Unmarshal(v, &with) == nil:
			row = []string{part, m, figure4(with.Slope), figure4(with.Low), figure4(with.High)}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// figure4 writes four digits: slopes rest on no more.
func figure4(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// collectStdout takes what a program wrote to standard output as the table.
func collectStdout(_ job, folders []string) (*output, error) {
	rows, err := readCSV(filepath.Join(folders[len(folders)-1], "stdout.txt"))
	return &output{table: rows}, err
}

// collectAudit turns the findings of the audit into a table and takes its picture.
func collectAudit(j job, folders []string) (*output, error) {
	raw, err := os.ReadFile(filepath.Join(folders[0], "audit.json"))
	if err != nil {
		return nil, err
	}
	var found report
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, err
	}
	optional := func(x *float64) string {
		if x == nil {
			return ""
		}
		return figure4(*x)
	}
	rows := [][]string{
		{"name", "case", "sabotage", "layer", "theorem", "relation", "epsilon", "delta", "exact", "at least", "p",
			"test", "power", "releases", "verdict"},
	}
	for _, c := range found.Cases {
		p, test := "", ""
		least := math.Inf(1)
		for _, t := range c.Tests {
			if t.P < least {
				least, test = t.P, t.Name
				p = figure4(min(1, t.P*float64(len(c.Tests)))) // corrected for their number
			}
		}
		rows = append(rows, []string{c.Mechanism, c.Case, c.Sabotage, string(c.Layer), c.Theorem, c.Relation.String(),
			figure4(c.Claim.Epsilon), figure4(c.Claim.Delta), optional(c.Exact), optional(c.Lower), p, test, optional(c.Power),
			strconv.Itoa(c.Releases), string(c.Verdict)})
	}
	out := &output{table: rows}
	return out, out.take(j.file()+".png", filepath.Join(folders[0], "audit.png"))
}

// collectLaps takes from the cells of a race what both searches did. The name of a
// part is the number of records.
func collectLaps(j job, folders []string) (*output, error) {
	rows := [][]string{
		{"records", "eps", "method", "problem", "status of the solver", "claims optimum", "excess over the minimum",
			"solver seconds", "search seconds", "search proved"},
	}
	for i, dir := range folders {
		raw, err := os.ReadFile(filepath.Join(dir, "cells.jsonl"))
		if err != nil {
			return nil, err
		}
		for _, l := range strings.Split(strings.TrimSpace(string(raw)), "\n")[1:] {
			var cell struct {
				Value  float64
				Method string
				Detail struct{ Laps []experiment.Lap }
			}
			if err := json.Unmarshal([]byte(l), &cell); err != nil {
				return nil, err
			}
			for k, lap := range cell.Detail.Laps {
				excess := figure4(lap.Excess)
				if lap.NoPoint || lap.Open {
					excess = ""
				}
				status, _, _ := strings.Cut(lap.Status, " -")
				rows = append(rows, []string{j.parts[i].name, figure4(cell.Value), cell.Method, strconv.Itoa(k), status,
					strconv.FormatBool(lap.ClaimsOptimum),
					excess, figure4(lap.Seconds), figure4(lap.Search), strconv.FormatBool(!lap.Open)})
			}
		}
	}
	return &output{table: rows}, nil
}

// collectGoals reads the lines of bench/peers.sh: number, what, ratio, goal, verdict.
func collectGoals(_ job, folders []string) (*output, error) {
	raw, err := os.ReadFile(filepath.Join(folders[0], "stdout.txt"))
	if err != nil {
		return nil, err
	}
	rows := [][]string{{"goal", "what", "ratio", "wanted", "verdict"}}
	for _, l := range strings.Split(string(raw), "\n") {
		left, right, ok := strings.Cut(l, " goal ")
		fields := strings.Fields(left)
		if !ok || len(fields) < 3 || strings.Contains(right, "not judged") {
			continue
		}
		wanted := strings.Fields(right)
		last := len(fields) - 1
		if _, err := strconv.ParseFloat(fields[last], 64); err != nil || len(wanted) < 3 {
			return nil, fmt.Errorf("bench/peers.sh wrote %q, want a goal with its ratio", l)
		}
		rows = append(rows, []string{fields[0], strings.Join(fields[1:last],
			" "), fields[last], wanted[0] + " " + wanted[1], strings.Join(wanted[2:], " ")})
	}
	if len(rows) == 1 {
		return nil, fmt.Errorf("bench/peers.sh judged no goal")
	}
	return &output{table: rows}, nil
}
