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
	"strconv"

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
	in, err := a.open(ctx, flag, path, "")
	if err != nil {
		return nil, nil, err
	}
	defer in.close()
	var text bytes.Buffer
	m, err := model.Load(io.TeeReader(in, &text))
	if kind := kindOf(text.Bytes()); err != nil && kind != "" && kind != "model" {
		return nil, nil, usagef("%s: %s is a %s: want a model that privopt fit wrote", flag, in.name, kind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", in.name, err)
	}
	return m, text.Bytes(), nil
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
	if u.model == "-" && u.data == "-" {
		return nil, nil, usagef("--model and --data are both standard input: want a file for one of them")
	}
	m, err := u.load(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	in, err := a.open(ctx, "--data", u.data, "reading")
	return m, in, err
}

func (u *usage) load(ctx context.Context, a *app) (*model.Model, error) {
	m, err := a.readModel(ctx, "--model", u.model)
	if err == nil && m.Encoder() == nil {
		return nil, usagef("--model: %s was fitted without a schema, so it cannot read a table", u.model)
	}
	return m, err
}

func (a *app) predict() *cobra.Command {
	var (
		u     usage
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
of the schema, but no label.

Predicting spends no budget. A prediction is as private as its row.`,
		Example: `  privopt predict --model model.json --data new.csv > predictions.csv
  privopt predict --model model.json --data new.csv.gz --out predictions.csv
  privopt predict --model model.json --data new.csv | paste -d, new.csv -`,
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
			o, err := a.create(out, force, 0)
			if err != nil {
				return err
			}
			defer o.abandon()
			buffer := bufio.NewWriterSize(o, 1<<16)
			format := csvPredictions
			if a.json {
				format = jsonPredictions
			}
			yield, flush := format(m, buffer)
			err = m.PredictCSV(in, table.Options{Public: u.public}, yield)
			if err != nil && errors.Is(err, table.ErrTable) {
				err = fmt.Errorf("%s: %w", in.name, err)
			}
			if err = errors.Join(err, flush(), buffer.Flush()); err != nil {
				return err
			}
			return o.commit()
		}),
	}
	u.flags(c, "table")
	outFlags(c, &out, &force, "`FILE` to write, - for standard output")
	return c
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

func csvPredictions(m *model.Model, out *bufio.Writer) (yield func(model.Prediction) error, flush func() error) {
	w := csv.NewWriter(out)
	head := []string{"prediction", "score"}
	if classNames(m) == nil { // the score is the prediction
		head = head[:1]
	}
	if hasProbabilities(m) {
		for _, c := range classNames(m) {
			head = append(head, "p("+c+")")
		}
	}
	failed := w.Write(head)
	row := make([]string, len(head))
	return func(p model.Prediction) error {
			if failed != nil {
				return failed
			}
			if row = append(row[:0], p.Label, short(p.Score, 6)); len(head) == 1 {
				row = append(row[:0], short(p.Score, 10))
			}
			for _, v := range p.Probabilities {
				row = append(row, short(v, 6))
			}
			return w.Write(row)
		}, func() error {
			w.Flush()
			return w.Error()
		}
}

// short formats to a few digits.
func short(v float64, digits int) string { return strconv.FormatFloat(v, 'g', digits, 64) }

func jsonPredictions(m *model.Model, out *bufio.Writer) (yield func(model.Prediction) error, flush func() error) {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	names := classNames(m)
	return func(p model.Prediction) error {
		line := struct {
			Prediction    string             `json:"prediction"`
			Score         float64            `json:"score"`
			Probabilities map[string]float64 `json:"probabilities,omitempty"`
		}{Prediction: p.Label, Score: p.Score}
		if p.Probabilities != nil {
			line.Probabilities = make(map[string]float64, len(names))
			for k, v := range p.Probabilities {
				line.Probabilities[names[k]] = v
			}
		}
		return enc.Encode(line)
	}, out.Flush
}
