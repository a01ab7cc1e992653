// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// task holds the flags that plan and fit have in common: schema, budget and options.
type task struct {
	schemaPath, set string
	budget          dp.Budget
	intervals       bool
	level, bound    float64
	options         model.Options

	schema *table.Schema
	origin string // why δ has its value
}

func (t *task) flags(c *cobra.Command) {
	f, o := c.Flags(), &t.options
	f.StringVar(&t.schemaPath, "schema", "", "schema `FILE`, see privopt schema -h")
	f.Float64Var(&t.budget.Epsilon, "epsilon", 0, "privacy budget `E`; 1 is common, smaller is more private")
	f.Float64Var(&t.budget.Delta, "delta", -1,
		"privacy budget `D`, a tiny probability; 0 for pure differential privacy\n(default 1/n₀² for the n₀ records "+
			"that the schema declares)")
	required(c, "epsilon")
	neighborsFlag(c, &o.Relation, 0,
		"`KIND` replace (hides the values of a record, not the number of records) or\n"+
			"add-remove (also hides whether a record is there) (default: the schema's, else replace)")
	f.StringVar(&o.Loss.Name, "loss", "",
		"`NAME` "+strings.Join(model.Losses(), ", ")+"\n(default logistic for two classes, multinomial for more, "+
			"squares for numbers)")
	f.Float64Var(&o.Loss.Order, "order", 0, "order `Q` in (0, 1) of --loss quantile (default 0.5, the median)")
	f.Float64Var(&o.Penalty.Ridge, "ridge", 0, "weight `W` of ½‖θ‖² in the mean loss, in addition to the ridge "+
		"that privacy needs")
	f.Float64Var(&o.Penalty.Lasso, "lasso", 0, "weight `W` of ‖θ‖₁ in the mean loss, which sets small coefficients to 0")
	f.Float64Var(&o.Penalty.Group, "group", 0, "weight `W` of the norm of each column's coefficients in the mean loss")
	f.StringVar(&t.set, "set", "", "constrain θ to a `SET`: box, ball, simplex or nonnegative, with a size as in ball:2")
	f.BoolVar(&t.intervals, "intervals", false, "also release standard errors and confidence intervals, for a quarter "+
		"of the budget")
	f.Float64Var(&t.level, "level", 0.95, "confidence level `L` of the intervals")
	f.Float64Var(&t.bound, "bound", 0,
		"public bound `B` on the norm of the true θ, for intervals of coefficients that the\ndata barely identify "+
			"(default none)")
	f.Float64Var(&o.Radius, "radius", 0, "public guess `R` of the norm of θ, used to tune losses other than squares "+
		"(default 20, or less for a number, by the number of columns)")
	f.Float64Var(&o.Clip, "clip", 0, "clip the slopes of squares at the share `C` of their range, in (0, 1] "+
		"(default chosen privately)")
	complete(c, "loss", model.Losses())
	complete(c, "set", model.Sets())
}

// stated is the origin of a δ from --delta.
const stated = "as stated"

// complete reads the schema and completes budget and options. It reads no data. For intervals it
// may add references to the schema, unless the rows may be encoded already.
func (t *task) complete(ctx context.Context, a *app, references bool) (err error) {
	if t.schema, err = a.readSchema(ctx, t.schemaPath); err != nil {
		return err
	}
	if err := t.choices(); err != nil {
		return err
	}
	if t.intervals && references {
		t.schema.References()
	}
	t.origin = stated
	if t.budget.Delta < 0 {
		if t.schema.Records == 0 {
			return usagef(`the default δ = 1/n₀² needs the number of %s: `+
				`declare "records": N in %s, or state --delta, such as 1e-9`, units(t.schema.Person != ""), t.schemaPath)
		}
		t.budget.Delta = model.DefaultDelta(t.schema.Records)
		t.origin = fmt.Sprintf("1/n₀² for the %s that the schema declares",
			amount(t.schema.Records, unit(t.schema.Person != "")))
	}
	return t.budget.Check()
}

// choices completes the options from the flags.
func (t *task) choices() (err error) {
	o := &t.options
	if t.set != "" {
		name, size, sized := strings.Cut(t.set, ":")
		o.Set.Name = name
		if sized {
			if o.Set.Size, err = decimal(size); err != nil {
				return usagef("--set %q: want a name, or a name and its size such as ball:2", t.set)
			}
		}
	}
	switch {
	case !(o.Clip >= 0 && o.Clip <= 1):
		return usagef("--clip %v: want a share in (0, 1], or 0 for a private choice", o.Clip)
	case t.intervals:
		o.Intervals = &model.Intervals{Level: t.level, Radius: t.bound}
	case t.bound != 0 || t.level != 0.95:
		return usagef("--level and --bound are options of --intervals: add --intervals, or leave them out")
	}
	return nil
}

// privacy describes the guarantee of a certificate and the origin of its δ.
func (t *task) privacy(c dp.Certificate) string {
	about := ""
	if c.Rows > 0 {
		about = fmt.Sprintf(", for all lines of one person, of which at most %d count", c.Rows)
	}
	if c.Delta == 0 && t.budget.Delta > 0 {
		return fmt.Sprintf("ε = %s, δ = 0 (the budget allowed %s, %s; the chosen noise needs none), %v neighbors%s",
			claim(c.Epsilon), claim(t.budget.Delta, 3), t.origin, c.Relation, about)
	}
	return fmt.Sprintf("ε = %s, δ = %s (%s), %v neighbors%s", claim(c.Epsilon), claim(c.Delta, 3), t.origin, c.Relation,
		about)
}

// unit names the unit of privacy, and units several of them.
func unit(person bool) string {
	if person {
		return "person"
	}
	return "record"
}

func units(person bool) string {
	if person {
		return "people"
	}
	return "records"
}

const fitHelp = `Fit a private model to a private table.

fit chooses the mechanism, its noise and the ridge from public quantities, or privately
within the budget; --verbose explains every choice. Values outside the declared ranges are
silently moved to the nearest end: a message would reveal them. The model may be
published; the table, the running time and error messages may not.

The table is a CSV file with a header line, plain or gzip, in the form that the schema
declares; fit reads it into memory once. Or it is a .npy file that pack made with the same
schema; above 256 MiB it stays on disk, and every pass reads it. Each line after the header is one
record; an empty line and a comment are records without values. If the schema names a column
"person", all lines of one person are protected together. The model file is written whole or
not at all.

Without --schema, a tenth of the budget (of the squared signal-to-noise ratio) finds a schema
privately, see privopt schema -h, and the rest fits by it; the certificate covers both. That
needs --label and --task: the noise of the fit is fixed before the label is known. --set,
--group and --intervals need a schema. --person and --rows protect all lines of one person; they
need --task two-classes, or a loss other than squares.

Budgets of several fits to the same data add up. --ledger counts them in a file that
several processes may share. It refuses a fit that would exceed the total, and records the
SHA-256 of every model.`

type fitting struct {
	task
	data              []string
	out, ledger, seed string
	public, force     bool
	verbose           bool
	entries           int     // of the ledger, before the fit
	engine            *Engine // nil for privopt, which reads the records itself
	search            searching
}

func (a *app) fit() *cobra.Command {
	var t fitting
	c := &cobra.Command{
		Use:   "fit [--schema FILE] --data FILE --epsilon E --out FILE",
		Short: "Fit a private model to a private table",
		Long:  fitHelp,
		Example: `  privopt fit --schema adult.json --data adult.data --epsilon 1 --out model.json
  zcat people.csv.gz | privopt fit --schema people.json --data - --epsilon 0.5 --out model.json
  privopt fit --schema people.json --data people.csv --epsilon 1 --intervals --out model.json
  privopt fit --schema people.json --data people.npy --epsilon 1 --out model.json

  privopt fit --data people.csv --label income --task two-classes --epsilon 1 --out model.json

  privopt ledger create people.ledger --epsilon 3 --delta 1e-8
  privopt fit --schema people.json --data people.csv --epsilon 1 --ledger people.ledger --out a.json`,
		Args: noArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error { return a.doFit(ctx, &t) }),
	}
	t.flags(c, "private table `FILE`: CSV, plain or gzip, - for standard input, or .npy, see\nprivopt pack -h")
	return c
}

func (t *fitting) flags(c *cobra.Command, data string) {
	f := c.Flags()
	f.StringArrayVar(&t.data, "data", nil, data)
	t.task.flags(c)
	if t.engine == nil { // without a schema
		t.search.flags(c, "that of --schema; needed without it")
		f.IntVar(&t.search.records, "records", 0, "public number `N` of records, without --schema under add-remove")
	} else {
		required(c, "schema")
	}
	outFlags(c, &t.out, &t.force, "model `FILE` to write, - for standard output")
	f.StringVar(&t.ledger, "ledger", "", "charge the budget to the ledger `FILE` before noise is drawn")
	f.StringVar(&t.seed, "seed", "", "draw reproducible noise from the seed `N`; the model is NOT PRIVATE")
	f.BoolVar(&t.public, "public", false, "the table is public: error messages may show its values, and shares of "+
		"missing, clamped and other fields are printed")
	f.BoolVarP(&t.verbose, "verbose", "v", false, "also print the plan: the mechanism, its noise and the reasons")
	required(c, "data", "out")
}

// fitted is the output of fit --json.
type fitted struct {
	Model       string         `json:"model"`
	Private     bool           `json:"private"`
	Certificate dp.Certificate `json:"certificate"`
	Delta       string         `json:"deltaIs"`
	Plan        string         `json:"plan"`
	Parameters  int            `json:"parameters"`
	Ledger      string         `json:"ledger,omitempty"`
	Entry       string         `json:"entry,omitempty"`
}

func (a *app) doFit(ctx context.Context, t *fitting) (err error) {
	if t.schemaPath == "" {
		return a.fitUndeclared(ctx, t)
	}
	if t.search != (searching{}) {
		return usagef("--label, --task and the other flags of a search for a schema are for a fit without --schema")
	}
	encoded := t.engine != nil || len(t.data) == 1 && isPacked(t.data[0])
	if err := t.complete(ctx, a, !encoded); err != nil {
		return err
	}
	o := &t.options
	if err := t.openLedger(); err != nil {
		return err
	}
	early, err := t.early()
	if err != nil {
		return err
	}
	a.loose(t.budget, t.schema.Records, t.schema.Person != "")
	a.foresee(ctx, t)
	out, err := a.create(t.out, kindModel, t.force, early)
	if err != nil {
		return err
	}
	defer out.abandon()
	data, err := a.read(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.close()) }()
	end := screen.Spin(a.stderr, "fitting")
	m, err := model.Fit(ctx, data.Data, t.budget, o)
	end()
	size, err := a.save(t, m, out, err)
	if err != nil {
		return err
	}
	return a.report(t, m, data.Data, size)
}

// foresee warns, before anything is spent, of a fit of which nothing useful is to be expected. The
// warning follows from public quantities alone.
func (a *app) foresee(ctx context.Context, t *fitting) {
	if t.schema.Records == 0 {
		return
	}
	pl, err := model.NewPlan(t.schema, t.budget, &t.options)
	if err != nil || pl.Params().Dim > manyParameters {
		return // the fit tells of an error, and many parameters take long to simulate
	}
	look, err := pl.Outlook(ctx, 3, 0)
	if warning := t.useless(&look, ""); err == nil && warning != "" {
		a.note("%s", warning)
	}
}

// save writes the model, if the fit has one, and returns its size in bytes. failed is the error of
// the fit: with a model it is one of the ledger.
func (a *app) save(t *fitting, m *model.Model, out *output, failed error) (size int, err error) {
	if m == nil {
		return 0, t.spent(failed)
	}
	var text bytes.Buffer
	if err := m.Save(&text); err != nil {
		return 0, t.spent(err)
	}
	if err := a.deliver(out, text.Bytes()); err != nil {
		return 0, err
	}
	return text.Len(), uncommitted(failed, t.options.Ledger, out.path)
}

// openLedger completes the options by the noise of --seed and the ledger of --ledger.
func (t *fitting) openLedger() (err error) {
	if t.options.Source, err = source(t.seed, t.ledger); err != nil || t.ledger == "" {
		return err
	}
	l, err := openLedger("--ledger", t.ledger)
	if err != nil {
		return err
	}
	// Without a schema, Spend compares the units: a partial schema is not read yet.
	if person := t.schema != nil && t.schema.Person != ""; t.schema != nil && person != l.Terms().Persons {
		option := ""
		if person {
			option = " --persons"
		}
		return fmt.Errorf("%w: --ledger: %s is about neighbors that differ in one %s, and a fit by this schema in one %s: "+
			"a ledger has one unit, so use one for these data that privopt ledger create%s made", dp.ErrRelation,
			t.ledger, unit(!person), unit(person), option)
	}
	t.options.Ledger, t.entries = l, len(l.Entries())
	return nil
}

// source returns the noise that --seed asks for, nil for secure noise.
func source(seed, ledgerPath string) (rand.Source, error) {
	if seed == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return nil, usagef("--seed %q: want a whole number in [0, 18446744073709551615], or leave it out for secure noise",
			seed)
	}
	if ledgerPath != "" {
		return nil, fmt.Errorf("%w: --seed with --ledger: leave out one of them", ledger.ErrSeeded)
	}
	return noise.Reproducible(n), nil
}

// early reports errors of the task before the table is opened, and returns the approximate size
// of the model in bytes.
func (t *fitting) early() (int, error) {
	e, err := t.schema.Encoder()
	if err != nil {
		return 0, err
	}
	if t.schema.Records > 0 {
		if err := model.Check(t.schema, t.budget, &t.options); err != nil {
			return 0, err
		}
	}
	d := e.Dim()
	size := 1<<14 + 250*d + len(t.schemaPath)
	if t.intervals {
		size += 24 * d * (d + 1)
	}
	return size, nil
}

func (a *app) read(ctx context.Context, t *fitting) (_ *records, err error) {
	e, err := t.schema.Encoder()
	if err != nil {
		return nil, err
	}
	o := table.Options{Public: t.public}
	if t.public && t.engine == nil {
		o.Tally = &table.Tally{}
		defer func() {
			if err == nil {
				io.WriteString(a.stderr, sharesText(t.schema, o.Tally))
			}
		}()
	}
	if t.engine != nil {
		src, end, err := t.engine.Open(ctx, &Table{Files: t.data, Encoder: e})
		if err != nil {
			return nil, err
		}
		return openRecords(ctx, src, end, e)
	}
	if len(t.data) > 1 {
		return nil, usagef("--data is given %d times, want one table", len(t.data))
	}
	if isPacked(t.data[0]) {
		// with a ledger, check the file first: a damaged one must not cost budget
		return openPacked(ctx, t.data[0], e, t.ledger != "")
	}
	in, err := a.openTable(ctx, "--data", t.data[0], "reading", t.schema.Missing)
	if err != nil {
		return nil, err
	}
	defer in.close()
	o.Plain = in.plain
	data, err := o.ReadCSV(in, t.schema)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.name, err)
	}
	return &records{data, func() error { return nil }}, nil
}

// spent adds to an error of a fit whether the ledger has been charged.
func (t *fitting) spent(err error) error {
	if errors.Is(err, ledger.ErrOverspent) && t.origin != stated {
		return noted{err, "δ is " + t.origin + ": state a smaller one with --delta"}
	}
	return charged(err, t.options.Ledger, t.entries, "fit")
}

// charged adds to an error of a fit or a score whether the ledger has more than the given number of
// entries.
func charged(err error, l *ledger.Ledger, entries int, what string) error {
	if l == nil || exitCode(err) == exitRefused || errors.Is(err, model.ErrOptions) || len(l.Entries()) == entries {
		return err
	}
	return noted{err, fmt.Sprintf("%s already has the entry of this %s: its budget counts as spent", l.Path(), what)}
}

func (a *app) report(t *fitting, m *model.Model, data *table.Data, size int) error {
	cert := m.Certificate()
	private := t.options.Source == nil
	r := fitted{Model: t.out, Private: private, Certificate: cert, Delta: t.origin, Plan: m.Describe(),
		Parameters: len(m.Theta())}
	if l := t.options.Ledger; l != nil {
		r.Ledger, r.Entry = l.Path(), m.LedgerHead()
	}
	n, _ := data.Records.Dims()
	if cert.Relation == dp.Replace && t.schema.Records > 0 && n != t.schema.Records {
		counting := ", counting empty lines and comments"
		if cert.Rows > 0 {
			counting = ", not counting lines without an id"
		}
		a.note("The schema declares %s; the table has %s%s. Under replace neighbors the number of %s is public, and the "+
			"noise was computed for the number in the table.", amount(t.schema.Records, unit(cert.Rows > 0)),
			humanize.Comma(int64(n)), counting, units(cert.Rows > 0))
	}
	if !private {
		a.note("NOT PRIVATE: anyone who guesses --seed can reproduce the noise. Use this model for tests only.")
	}
	if t.out == "-" {
		return nil
	}
	return a.show(r, t.text(&r, m.Params().Loss.Name, size))
}

// text reports a fit on two lines: what was released and what it cost, and what to do next. With
// --verbose it has the plan as well.
func (t *fitting) text(r *fitted, loss string, size int) string {
	var b strings.Builder
	c := r.Certificate
	next := fmt.Sprintf("privopt explain %s; privopt predict --model %[1]s --data FILE", t.out)
	entry, which := "", 0
	l := t.options.Ledger
	if l != nil {
		which = 1 + slices.IndexFunc(l.Entries(), func(e ledger.Entry) bool { return e.Hash == r.Entry })
		entry = fmt.Sprintf(", entry %d of %s", which, l.Path())
	}
	if !t.verbose {
		b.WriteString(paragraph("", fmt.Sprintf("%s: %s model with %s; cost ε = %s, δ = %s%s", t.out, loss,
			amount(r.Parameters, "parameter"), claim(c.Epsilon), claim(c.Delta, 3), entry)))
		b.WriteString(paragraph("next: ", next))
		return b.String()
	}
	b.WriteString(paragraph("", fmt.Sprintf("%s: %s model with %s, %s", t.out, loss, amount(r.Parameters, "parameter"),
		humanize.Bytes(uint64(size)))))
	b.WriteString(paragraph("  privacy  ", t.privacy(c)))
	b.WriteString(paragraph("  plan     ", r.Plan))
	if l != nil {
		total := l.Terms().Total
		b.WriteString(paragraph("  ledger   ", fmt.Sprintf("%s, entry %d of a total of ε = %s, δ = %s: privopt ledger show "+
			"%[1]s prints what is left", l.Path(), which, claim(total.Epsilon), claim(total.Delta, 3))))
	}
	b.WriteString(paragraph("  next     ", next))
	return b.String()
}
