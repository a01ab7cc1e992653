// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/privopt/privopt/cmd/internal/screen"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
)

// openLedger opens the file that a flag or argument names.
func openLedger(flag, path string) (*ledger.Ledger, error) {
	l, err := ledger.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no file %s: create one ledger for the data, with a total budget, by privopt "+
			"ledger create %s --epsilon E --delta D", flag, path, path)
	}
	if errors.Is(err, ledger.ErrBroken) {
		switch kind, _ := contentsOf(path); kind {
		case "ledger":
		case "":
			return nil, fmt.Errorf("%w; it does not begin as a ledger, is it the right file?", err)
		default:
			return nil, usagef("%s: %s is a %s: want a ledger, see privopt ledger -h", flag, path, kind)
		}
	}
	return l, err
}

func (a *app) ledger() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger COMMAND",
		Short: "Count and limit the budget of all fits to the same data",
		Long: `Count and limit the budget of all fits to the same data.

Budgets add up: two models at ε = 1 may together reveal as much as one model at ε = 2. A
ledger is a file with a total budget, declared once. privopt fit --ledger FILE refuses a
fit that would exceed the total. Otherwise it writes an entry, and syncs it to the disk
before noise is drawn: the budget of a fit that crashes counts as spent. Several processes
of one machine may share a ledger, under any of its names; they wait for each other. Keep
the ledger on a local disk.

Each line of a ledger holds a hash of itself and of the line before. Each model holds the
hash of its entry, and the ledger holds the SHA-256 of each model. So verify detects an
edited ledger and an edited model. Given the models, it also detects entries cut off at
the end. It cannot detect a ledger that was created again, or restored from an older copy,
unless it is given a model of a later entry.`,
		Example: `  privopt ledger create people.ledger --epsilon 3 --delta 1e-8
  privopt ledger show people.ledger
  privopt ledger verify people.ledger model.json`,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
		},
	}
	c.AddCommand(a.ledgerCreate(), a.ledgerShow(), a.ledgerVerify())
	return c
}

func (a *app) ledgerCreate() *cobra.Command {
	var t ledger.Terms
	var filter string
	var persons, verbose bool
	c := &cobra.Command{
		Use:   "create FILE --epsilon E",
		Short: "Create a ledger with a total budget",
		Long: `Create a ledger with a total budget, which cannot be changed later.

By default a ledger with δ > 0 has three filters, each with a third of δ, and admits a fit
if one of them does: sums of ε and δ, and two Rényi filters. Several fits then cost less
than the sum of their ε: ten of least squares at ε = 0.3 fit into a total of 1.69. If none
of the filters admits the first fit with its share, sums have all of δ and are the only
filter from there on. With --filter basic they are in any case.

A ledger counts what is known of one record, or with --persons of one person with all of
their lines: fits by a schema with "person" need --persons, and other fits are refused. The first
entry fixes the column of ids: guarantees for a patient and for a visit do not add up.`,
		Example: `  privopt ledger create people.ledger --epsilon 3 --delta 1e-8
  privopt ledger create visits.ledger --epsilon 3 --delta 1e-8 --persons`,
		Args: oneArg("FILE"),
		RunE: a.do(func(_ context.Context, args []string) error {
			switch {
			case filter != "auto" && filter != "basic":
				return usagef("--filter %q: want auto or basic", filter)
			case filter == "basic" && len(t.Orders) > 0:
				return usagef("--filter basic with --orders: leave out one of them")
			case filter == "auto" && len(t.Orders) == 0:
				var err error
				if t, err = ledger.NewTerms(t.Total, t.Relation); err != nil {
					return err
				}
			}
			t.Persons = persons
			l, err := ledger.Create(args[0], t)
			if errors.Is(err, fs.ErrExist) {
				return usagef("%s exists: use it, or choose another name", args[0])
			}
			if err != nil {
				return err
			}
			return a.showLedger(l, verbose)
		}),
	}
	c.Flags().SortFlags = false
	c.Flags().Float64Var(&t.Total.Epsilon, "epsilon", 0, "total `E` of all fits")
	c.Flags().Float64Var(&t.Total.Delta, "delta", 0, "total `D` of all fits")
	neighborsFlag(c, &t.Relation, dp.Replace, "`KIND` replace or add-remove, as in the schema")
	c.Flags().BoolVar(&persons, "persons", false, "for fits by schemas with \"person\": protect all lines of a person")
	c.Flags().StringVar(&filter, "filter", "auto", "`KIND` auto, or basic: ε and δ add up")
	c.Flags().Float64SliceVar(&t.Orders, "orders", nil,
		"orders `A` > 1 of Rényi filters, such as 4,8,16, beside sums of ε and δ, in place of\n"+
			"auto; each filter has δ/(1 + number of orders)")
	verboseLedger(c, &verbose)
	required(c, "epsilon")
	return c
}

// shown is the output of ledger show --json.
type shown struct {
	Path    string       `json:"path"`
	Terms   ledger.Terms `json:"terms"`
	Spent   dp.Budget    `json:"spent"` // sums of the budgets of the entries
	Used    []ledger.Use `json:"used"`
	Entries []shownEntry `json:"entries"`
	Head    string       `json:"head"`
}

type shownEntry struct {
	ledger.Entry
	Hash  string `json:"hash"`
	Model string `json:"model,omitempty"` // SHA-256 of its file
}

// verboseLedger adds a flag that shows the filters and hashes of a ledger.
func verboseLedger(c *cobra.Command, verbose *bool) {
	c.Flags().BoolVarP(verbose, "verbose", "v", false, "also print what each filter has used and left, and the hashes")
}

func (a *app) ledgerShow() *cobra.Command {
	verbose := false
	c := &cobra.Command{
		Use:   "show FILE",
		Short: "Print the total budget, what is spent and left, and every entry",
		Long: `Print the total budget, what is spent and left, and every entry.

The guarantee is the total, however much of it is spent. Several filters count the entries
in different ways, and a fit is admitted if one of them has room: left is the share of the
filter with the most room. With --verbose, show also prints a table of the filters, and the
hashes of entries and models.`,
		Example: "  privopt ledger show people.ledger\n  privopt ledger show people.ledger --json",
		Args:    oneArg("FILE"),
		RunE: a.do(func(_ context.Context, args []string) error {
			l, err := openLedger("FILE", args[0])
			if err != nil {
				return err
			}
			return a.showLedger(l, verbose)
		}),
	}
	verboseLedger(c, &verbose)
	return c
}

func (a *app) showLedger(l *ledger.Ledger, verbose bool) error {
	s := shown{l.Path(), l.Terms(), l.Spent(), l.Used(), []shownEntry{}, l.Head()}
	for _, e := range l.Entries() {
		s.Entries = append(s.Entries, shownEntry{e, e.Hash, e.File})
	}
	return a.show(s, s.text(verbose))
}

// text shows the budget and the entries, and if verbose the filters and the hashes.
func (s *shown) text(verbose bool) string {
	var b strings.Builder
	about := ""
	if s.Terms.Persons {
		about = " that differ in all lines of one person"
		if len(s.Entries) > 0 && s.Entries[0].Person != "" {
			about += fmt.Sprintf(", by the ids of the column %q", printable(s.Entries[0].Person))
		}
	}
	b.WriteString(paragraph("", fmt.Sprintf("%s: %v neighbors%s", s.Path, s.Terms.Relation, about)))
	total := s.Terms.Total
	fmt.Fprintf(&b, "total  ε = %s, δ = %s\n", claim(total.Epsilon), claim(total.Delta, 3))
	left, how := s.left()
	sum := ""
	if len(s.Entries) > 0 {
		sum = ", whose ε add up to " + claim(s.Spent.Epsilon)
	}
	fmt.Fprintf(&b, "spent  %d %% in %s%s\n", 100-left, amount(len(s.Entries), "entry"), sum)
	if !verbose {
		how = " for later releases"
	}
	b.WriteString(paragraph("left   ", fmt.Sprintf("%d %%%s", left, how)))
	if verbose {
		b.WriteString("\n" + s.filters())
	}
	if len(s.Entries) == 0 {
		return b.String()
	}
	head := []string{"entry", "time (UTC)", "theorem", "ε", "δ", "hash", "model"}
	rows := [][]string{head}
	for _, e := range s.Entries {
		file := "none"
		if e.Model != "" {
			file = e.Model[:12]
		}
		rows = append(rows, []string{humanize.Comma(int64(e.Number)), e.Time.Format("2006-01-02 15:04"), printable(e.Theorem),
			claim(e.Epsilon), claim(e.Delta, 3), e.Hash[:12], file})
	}
	for i := range rows {
		rows[i][0] = "  " + rows[i][0]
		if !verbose {
			rows[i] = rows[i][:5]
		}
	}
	b.WriteString("\n" + screen.Table("rllr", rows, screen.Out()))
	return b.String()
}

// left returns how many percent of its totals the filter with the most room has left, and its name.
func (s *shown) left() (left int, how string) {
	rooms := map[string]float64{} // the least share left of the totals of a filter
	best := ""
	for _, u := range s.Used {
		share := 0.0
		switch {
		case u.Total > 0:
			share = max(0, 1-u.Used/u.Total)
		case u.Used == 0: // nothing of it is allowed or used, such as δ = 0
			share = 1
		}
		if room, ok := rooms[u.Filter]; ok {
			share = min(share, room)
		}
		rooms[u.Filter] = share
	}
	for _, u := range s.Used { // the first of equals
		if best == "" || rooms[u.Filter] > rooms[best] {
			best = u.Filter
		}
	}
	const basic = "basic"
	whole := func(filter string) int { return int(100*rooms[filter] + 1e-9) } // 0.6/1 counts as 60 %
	left = whole(best)
	switch {
	case best == basic:
		return left, ", as sums of ε and δ count"
	}
	return left, fmt.Sprintf(", as a Rényi filter counts; %d %% as sums of ε and δ count", whole(basic))
}

// filters is a table of what each filter has used and left.
func (s *shown) filters() string {
	rows := make([][]string, len(s.Used))
	for i, u := range s.Used {
		last := ""
		if len(s.Entries) > 0 {
			last = claim(u.Last)
		}
		rows[i] = []string{u.Filter + ": " + u.Sum, claim(u.Used), last, room(max(0, u.Total-u.Used)), claim(u.Total)}
	}
	return grid([]string{"filter: sum", "used", "last entry", "left", "total"}, rows) + paragraph("", "The next fit is "+
		"admitted if one filter has enough left of all its sums. What is used of them is no guarantee: the guarantee is the "+
		"total.")
}

func (a *app) ledgerVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify FILE [MODEL|SCORE…]",
		Short: "Check the hashes of a ledger, and that it paid for the given models and scores",
		Long: `Check the hashes of a ledger, and that it paid for the given models and scores.

A model, or a score that score --out wrote, is accepted if the ledger has its entry, with
the same epsilon, delta, neighbors, column of persons and theorem, and if the entry holds
the SHA-256 of the file. So verify detects an edited file and a second file for one
entry. A fit that is killed after it was charged leaves an entry without a model. Models
of version 0.1.0 and scores of version 0.2.0 cannot be verified: their entries hold no
SHA-256.`,
		Example: `  privopt ledger verify people.ledger
  privopt ledger verify people.ledger models/*.json`,
		Args: func(c *cobra.Command, args []string) error { return oneArg("FILE")(c, args[:min(len(args), 1)]) },
		RunE: a.do(func(ctx context.Context, args []string) error {
			l, err := openLedger("FILE", args[0])
			if err != nil {
				return err
			}
			for _, path := range args[1:] {
				head, cert, text, err := a.paid(ctx, path)
				if err != nil {
					return err
				}
				if head == "" {
					return fmt.Errorf("%w: %s was made without a ledger, so no ledger counts it", ledger.ErrBehind, path)
				}
				if err := l.VerifyFile(head, cert, text); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			return a.show(struct {
				Intact bool   `json:"intact"`
				Models int    `json:"models"`
				Head   string `json:"head"`
			}{true, len(args) - 1, l.Head()}, fmt.Sprintf("%s: intact, %s, head %s%s\n", l.Path(),
				amount(len(l.Entries()), "entry"), l.Head()[:12],
				models(len(args)-1)))
		}),
	}
}

// paid returns the entry that a model or a score names, its certificate and its text.
func (a *app) paid(ctx context.Context, path string) (head string, c dp.Certificate, text []byte, err error) {
	if kind, err := contentsOf(path); err == nil && kind == kindScore {
		s, text, err := a.readScore(ctx, "SCORE", path, nil)
		if err != nil {
			return "", c, nil, err
		}
		return s.Ledger, s.Certificate, text, nil
	}
	m, text, err := a.readModelFile(ctx, "MODEL", path)
	if err != nil {
		return "", c, nil, err
	}
	return m.LedgerHead(), m.Certificate(), text, nil
}

func models(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "; it paid for the file"
	}
	return "; it paid for all " + strconv.Itoa(n) + " files"
}
