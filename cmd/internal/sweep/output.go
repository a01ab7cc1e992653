// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sweep

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/privopt/privopt/cmd/internal/screen"
)

// summary is the content of summary.json.
type summary struct {
	SchemaVersion int             `json:"schema_version"`
	Experiment    string          `json:"experiment"`
	NotPrivate    string          `json:"not_private,omitempty"`
	Params        json.RawMessage `json:"params"`
	Environment   environment     `json:"environment"`
	Methods       []methodTotal   `json:"methods"`
	Results       any             `json:"results,omitempty"`
	Seconds       seconds         `json:"seconds"`
}

// environment is the origin of the numbers.
type environment struct {
	Version    string  `json:"version"` // of the module
	Go         string  `json:"go"`
	Platform   string  `json:"platform"`
	GOMAXPROCS int     `json:"gomaxprocs"`
	Seed       *uint64 `json:"seed"` // null: secure noise
}

// methodTotal counts the work of one method.
type methodTotal struct {
	Method string `json:"method"`
	Cells  int    `json:"cells"`
	Runs   int    `json:"runs"`
}

// seconds are the only numbers that differ between two runs with one seed.
type seconds struct {
	Wall    float64            `json:"wall"`    // of the last sitting
	Cells   float64            `json:"cells"`   // added over all cells
	Methods map[string]float64 `json:"methods"` // the same for each method
}

// summarize fills everything but Results and the wall time.
func (e *Experiment) summarize(h header, results []Result) summary {
	s := summary{
		SchemaVersion: SchemaVersion,
		Experiment:    e.Name,
		NotPrivate:    h.NotPrivate,
		Params:        h.Params,
		Environment: environment{Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH,
			runtime.GOMAXPROCS(0), h.Seed},
		Seconds: seconds{Methods: map[string]float64{}},
	}
	for _, m := range e.Methods {
		t := methodTotal{Method: m}
		for _, r := range results {
			if r.Method == m {
				t.Cells++
				t.Runs += r.Runs
				s.Seconds.Cells += r.Seconds
				s.Seconds.Methods[m] += r.Seconds
			}
		}
		s.Methods = append(s.Methods, t)
	}
	return s
}

// write puts the result files into the folder and returns the closing lines.
func (f *files) write(results []Result, start time.Time) ([]string, error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	save := func(name string, render func() ([]byte, error)) {
		wg.Go(func() { // rendering one plot is as long as hundreds of cells
			data, err := render()
			if err == nil {
				err = WriteFile(f.path(name), data)
			}
			mu.Lock()
			failed = First(failed, err)
			mu.Unlock()
		})
	}
	for _, format := range f.o.Formats {
		switch format {
		case "json":
		case "csv":
			save(f.base()+".csv", func() ([]byte, error) { return writeCSV(f.header, f.e.Columns, results) })
		default:
			save(f.base()+"."+format, func() ([]byte, error) {
				return f.e.Plot.render(format, f.e, f.header.NotPrivate, results)
			})
		}
	}
	wg.Wait()
	if failed != nil {
		return nil, failed
	}

	var lines []string
	s := f.e.summarize(f.header, results)
	if f.e.Summarize != nil {
		s.Results, lines = f.e.Summarize(results)
	}
	s.Seconds.Wall = time.Since(start).Seconds()
	if slices.Contains(f.o.Formats, "json") {
		text, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("sweep: summary: %w", err)
		}
		if err := WriteFile(f.path("summary.json"), append(text, '\n')); err != nil {
			return nil, err
		}
	}
	runs := 0
	for _, t := range s.Methods {
		runs += t.Runs
	}
	return append(lines, fmt.Sprintf("%d runs in %d cells, %.3g s of work, %.3g s in all; files in %s", runs, len(results),
		s.Seconds.Cells, s.Seconds.Wall, f.o.Out)), nil
}

var csvHeader = []string{"sweep", "value", "method", "runs", "mean", "std", "stderr", "seconds"}

// Column is one more column of the CSV file, after those of every experiment.
type Column struct {
	Name string
	Text func(r Result) string
}

// Number is a column of the numbers that of finds in the cells, empty where there is none.
func Number(name string, of func(r Result) (x float64, ok bool)) Column {
	return Column{name, func(r Result) string {
		if x, ok := of(r); ok {
			return format(x)
		}
		return ""
	}}
}

// writeCSV writes one row a cell in full precision. The sweep column of
// results that are not private says so.
func writeCSV(h header, columns []Column, results []Result) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	head := slices.Clone(csvHeader)
	for _, c := range columns {
		head = append(head, c.Name)
	}
	w.Write(head)
	for _, r := range results {
		name := r.Sweep
		if h.NotPrivate != "" {
			name += " (not private)"
		}
		row := []string{name, format(r.Value), r.Method, strconv.Itoa(r.Runs), format(r.Mean), format(r.Std),
			format(r.StdErr), format(r.Seconds)}
		for _, c := range columns {
			row = append(row, c.Text(r))
		}
		w.Write(row)
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// writeTable writes one line a value and, for each method, a column with the mean and, where it has
// several runs, one with the standard error.
func writeTable(out io.Writer, e *Experiment, notPrivate string, results []Result) error {
	var b bytes.Buffer
	if notPrivate != "" {
		b.WriteString(screen.Paragraph("", "NOT PRIVATE: "+notPrivate, screen.Out()))
	}
	several := map[string]bool{}
	for _, r := range results {
		several[r.Method] = several[r.Method] || r.Runs > 1
	}
	rows := [][]string{{e.Sweep}}
	for _, m := range e.Methods {
		rows[0] = append(rows[0], m)
		if several[m] {
			rows[0] = append(rows[0], "±se")
		}
	}
	for i, r := range results {
		if i%len(e.Methods) == 0 {
			rows = append(rows, []string{fmt.Sprintf("%.5g", r.Value)})
		}
		mean, err := short(r)
		row := append(rows[len(rows)-1], mean)
		if several[r.Method] {
			row = append(row, err)
		}
		rows[len(rows)-1] = row
	}
	b.WriteString(screen.Table("r", rows, screen.Out()))
	_, err := out.Write(b.Bytes())
	return err
}

// short writes the mean to the digits that its standard error supports, at least four, and the
// error to two.
func short(r Result) (mean, stderr string) {
	digits := 4
	if r.StdErr > 0 && r.Mean != 0 {
		digits = min(8, max(4, 2+int(math.Ceil(math.Log10(math.Abs(r.Mean)/r.StdErr)))))
	}
	if r.Runs > 1 {
		stderr = fmt.Sprintf("%.2g", r.StdErr)
	}
	return fmt.Sprintf("%.*g", digits, r.Mean), stderr
}
