// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

func (a *app) readModel(ctx context.Context, flag, path string) (*model.Model, error) {
	m, _, err := a.readModelFile(ctx, flag, path)
	return m, err
}

// readModelFile returns the text of the file as well.
func (a *app) readModelFile(ctx context.Context, flag, path string) (*model.Model, []byte, error) {
	text, name, err := a.readFile(ctx, flag, path, kindModel, "a model that privopt fit wrote")
	if err != nil {
		return nil, nil, err
	}
	m, err := model.Load(bytes.NewReader(text))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, text, nil
}

// usage holds the flags of commands that apply a model to a table.
type usage struct {
	model, data string
	public      bool
}

func (u *usage) flags(c *cobra.Command, table string) {
	c.Flags().StringVar(&u.model, "model", "", "model `FILE` that fit wrote")
	c.Flags().StringVar(&u.data, "data", "", table+" `FILE`: CSV, plain or gzip, - for standard input")
	c.Flags().BoolVar(&u.public, "public", false, "the table is public: error messages may show its values")
	required(c, "model", "data")
}

func (u *usage) open(ctx context.Context, a *app) (*model.Model, *input, error) {
	m, err := u.load(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	in, err := a.openTable(ctx, "--data", u.data, "reading", m.Encoder().Schema().Missing)
	return m, in, err
}

func (u *usage) load(ctx context.Context, a *app) (*model.Model, error) {
	m, err := a.readModel(ctx, "--model", u.model)
	if err == nil && m.Encoder() == nil {
		return nil, usagef("--model: %s was fitted without a schema, so it cannot read a table", u.model)
	}
	return m, err
}

// copying holds the flags of predict that copy fields of the table.
type copying struct {
	all bool
	id  string
}

func (a *app) predict() *cobra.Command {
	var (
		u     usage
		copy  copying
		out   = "-"
		force bool
	)
	c := &cobra.Command{
		Use:   "predict --model FILE --data FILE",
		Short: "Predict the label of every row of a table",
		Long: `Predict the label of every row of a table, in its order, one row at a time.

The output is CSV. If the label is a number, its only column is prediction. If the label
is a class, there is also score (the log-odds; for losses without probabilities, the
number whose sign or size decides) and p(CLASS), the probability of each class, if the
loss has probabilities. With --json, each line is one object. The table needs the columns
of the schema, but no label; other columns are left out.

With --append these columns follow all those of the table, in the form that the schema
gives for files, but in UTF-8; with --id they follow one column. Empty lines and comments
have no prediction.

Predicting spends no budget. A prediction is as private as its row.`,
		Example: `  privopt predict --model model.json --data new.csv > predictions.csv
  privopt predict --model model.json --data new.csv.gz --id patient --out predictions.csv
  privopt predict --model model.json --data new.csv --append > with-predictions.csv`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			if isPacked(u.data) {
				return usagef("--data: %s holds the records in another order than its table: want the table as CSV", u.data)
			}
			m, in, err := u.open(ctx, a)
			if err != nil {
				return err
			}
			defer in.close()
			o, err := a.create(out, kindPredictions, force, 0)
			if err != nil {
				return err
			}
			defer o.abandon()
			buffer := bufio.NewWriterSize(o, 1<<16)
			err = a.writePredictions(m, in, u.public, copy, buffer)
			if err != nil && errors.Is(err, table.ErrTable) {
				err = fmt.Errorf("%s: %w", in.name, err)
			}
			if err = errors.Join(err, buffer.Flush()); err != nil {
				return err
			}
			return o.commit()
		}),
	}
	u.flags(c, "table")
	c.Flags().BoolVar(&copy.all, "append", false, "write the columns of the table, too, and the prediction behind them")
	c.Flags().StringVar(&copy.id, "id", "", "write the `COLUMN` of the table, too, before the prediction")
	outFlags(c, &out, &force, "`FILE` to write, - for standard output")
	return c
}

// writePredictions writes a prediction for each row of a table.
func (a *app) writePredictions(m *model.Model, in *input, public bool, copy copying, out *bufio.Writer) error {
	o := table.Options{Public: public, Plain: in.plain, Unlabeled: true, Skip: true}
	if public {
		o.Tally = &table.Tally{}
	}
	rows, err := m.Encoder().Rows(in, o)
	if err != nil {
		return err
	}
	at, err := copy.columns(rows.Names(), predictionColumns(m))
	if err != nil {
		return err
	}
	format := csvPredictions
	if a.json {
		format = jsonPredictions
	}
	write, flush := format(m, rows, at, copy, out)
	for rows.Next() {
		if err := write(m.PredictEntries(rows.Row())); err != nil {
			return err
		}
	}
	if err := errors.Join(rows.Err(), flush(rows.Err() == nil)); err != nil {
		return err
	}
	if public {
		io.WriteString(a.stderr, sharesText(m.Encoder().Schema(), o.Tally))
	}
	return nil
}

// columns returns the indices of the columns of the table to copy.
func (c copying) columns(names, added []string) (at []int, err error) {
	switch {
	case c.all && c.id != "":
		return nil, usagef("--append and --id: want one of them, --append writes all columns")
	case c.id != "":
		i := slices.Index(names, c.id)
		if i < 0 {
			return nil, usagef("--id %q: the table has no such column", c.id)
		}
		at = []int{i}
	case c.all:
		for i := range names {
			at = append(at, i)
		}
	}
	for _, i := range at {
		if slices.Contains(added, names[i]) {
			return nil, usagef("the table has a column %q, as the predictions have: rename it", printable(names[i]))
		}
	}
	return at, nil
}

// predictionColumns names the columns of predictions.
func predictionColumns(m *model.Model) []string {
	out := []string{"prediction", "score"}
	if classNames(m) == nil { // the score is the prediction
		out = out[:1]
	}
	if hasProbabilities(m) {
		for _, c := range classNames(m) {
			out = append(out, "p("+c+")")
		}
	}
	return out
}

// classNames returns the classes of the label, each in its first spelling; nil for a number.
func classNames(m *model.Model) []string {
	l := m.Encoder().Schema().Label
	if l.Levels != nil {
		return l.Levels
	}
	if l.Positive != nil {
		return []string{l.Negative[0], l.Positive[0]}
	}
	return nil
}

func hasProbabilities(m *model.Model) bool {
	name := m.Params().Loss.Name
	return name == model.Logistic || name == model.Multinomial
}

// csvPredictions writes fields of rows at the given indices, then the prediction. The header line
// comes with the first prediction, or with flush if there is none and no error.
func csvPredictions(m *model.Model, rows *table.Rows, at []int, copy copying, out *bufio.Writer) (
	write func(model.Prediction) error, flush func(good bool) error,
) {
	w, number := csv.NewWriter(out), short
	comment := ""
	if copy.all { // in the form of the table
		f := m.Encoder().Schema().File
		comment = f.Comment
		if f.Delimiter != "" {
			w.Comma = rune(f.Delimiter[0])
		}
		if f.Decimal == "," {
			number = func(v float64, digits int) string { return strings.Replace(short(v, digits), ".", ",", 1) }
		}
	}
	writeLine := func(line []string) error {
		if comment != "" && strings.HasPrefix(line[0], comment) { // in quotes it is no comment
			w.Flush()
			fmt.Fprintf(out, "\"%s\"%c", strings.ReplaceAll(line[0], `"`, `""`), w.Comma)
			line = line[1:]
		}
		return w.Write(line)
	}
	added := predictionColumns(m)
	var line []string
	for _, i := range at {
		line = append(line, rows.Names()[i])
	}
	head, begun := append(line, added...), false
	begin := func() error {
		if begun {
			return nil
		}
		begun = true
		return writeLine(head)
	}
	return func(p model.Prediction) error {
			if err := begin(); err != nil {
				return err
			}
			line := make([]string, 0, len(head))
			for _, i := range at {
				line = append(line, rows.Field(i))
			}
			if len(added) == 1 {
				line = append(line, number(p.Score, 10))
			} else {
				line = append(line, p.Label, number(p.Score, 6))
			}
			for _, v := range p.Probabilities {
				line = append(line, number(v, 6))
			}
			return writeLine(line)
		}, func(good bool) (err error) {
			if good {
				err = begin()
			}
			w.Flush()
			return errors.Join(err, w.Error())
		}
}

// short formats to a few digits.
func short(v float64, digits int) string { return strconv.FormatFloat(v, 'g', digits, 64) }

func jsonPredictions(m *model.Model, rows *table.Rows, at []int, copy copying, out *bufio.Writer) (
	write func(model.Prediction) error, flush func(good bool) error,
) {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	classes, names := classNames(m), rows.Names()
	return func(p model.Prediction) error {
		line := struct {
			ID            string             `json:"id,omitempty"`
			Row           map[string]string  `json:"row,omitempty"`
			Prediction    string             `json:"prediction"`
			Score         float64            `json:"score"`
			Probabilities map[string]float64 `json:"probabilities,omitempty"`
		}{Prediction: p.Label, Score: p.Score}
		if copy.id != "" {
			line.ID = rows.Field(at[0])
		}
		if copy.all {
			line.Row = make(map[string]string, len(at))
			for _, i := range at {
				line.Row[names[i]] = rows.Field(i)
			}
		}
		if p.Probabilities != nil {
			line.Probabilities = make(map[string]float64, len(classes))
			for k, v := range p.Probabilities {
				line.Probabilities[classes[k]] = v
			}
		}
		return enc.Encode(line)
	}, func(bool) error { return nil }
}
