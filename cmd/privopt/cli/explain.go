package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model"
)

// explained is what explain --json prints.
type explained struct {
	Private     bool           `json:"private"`
	Certificate dp.Certificate `json:"certificate"`
	Protects    string         `json:"protects"`
	Detects     []detection    `json:"detection"`
	Plan        string         `json:"plan"`
	Choice      *model.Choice  `json:"choice,omitempty"`
	Ledger      string         `json:"ledger,omitempty"`
	Proof       string         `json:"proof"`
}

// noProof is what a model file is worth without a ledger.
const noProof = "The file proves nothing by itself: whoever has it can write other numbers into it, also other ε and δ."

// detection bounds a test that tells two neighboring tables apart.
type detection struct {
	FalseAlarms float64 `json:"falseAlarms"`
	Power       float64 `json:"powerAtMost"`
}

func (a *app) explain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain MODEL",
		Short: "Say in plain words what a model guarantees, to whom, and on what that rests",
		Long: `Say in plain words what a model guarantees, to whom, and on what that rests.

The text may be published with the model.`,
		Example: "  privopt explain model.json\n  privopt explain model.json --json",
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			m, err := a.readModel(ctx, "MODEL", args[0])
			if err != nil {
				return err
			}
			c := m.Certificate()
			e := explained{
				Private: !slices.Contains(c.Assumptions, dp.CallerSource), Certificate: c, Protects: protects(c.Relation),
				Detects: []detection{{0.01, power(c.Budget, 0.01)}, {0.05, power(c.Budget, 0.05)}, {0.2, power(c.Budget, 0.2)}},
				Plan:    m.Describe(), Choice: m.Choice(), Ledger: m.LedgerHead(),
				Proof: noProof,
			}
			return a.show(e, e.text(m))
		}),
	}
}

func protects(r dp.Relation) string {
	if r == dp.AddRemove {
		return "the values of any one record and whether it is in the table at all; the number of records is protected " +
			"as well"
	}
	return "the values of any one record; the number of records is not protected"
}

// power bounds the probability that a test detects which of two neighboring tables was
// used, if it gives a false alarm with probability alpha:
//
//	min{ e^ε α + δ, 1 − e^{−ε}(1 − δ − α) }
func power(b dp.Budget, alpha float64) float64 {
	return min(math.Exp(b.Epsilon)*alpha+b.Delta, 1-math.Exp(-b.Epsilon)*(1-b.Delta-alpha), 1)
}

func (e *explained) text(m *model.Model) string {
	var b strings.Builder
	c := e.Certificate
	section := func(title string) { b.WriteString("\n" + title + "\n\n") }
	line := func(format string, args ...any) {
		b.WriteString(paragraph("  ", printable(fmt.Sprintf(format, args...))))
	}
	item := func(text string) { b.WriteString(paragraph("  - ", printable(text))) }
	if !e.Private {
		b.WriteString(paragraph("", "NOT PRIVATE: the noise came from a source that the caller chose, such as --seed. "+
			"Whoever guesses it learns the records. What follows holds only if nobody can."))
		b.WriteByte('\n')
	}
	p := m.Params()
	label := ""
	if enc := m.Encoder(); enc != nil {
		label = " that predicts " + printable(enc.Schema().Label.Column)
	}
	b.WriteString(paragraph("", fmt.Sprintf("A %s model%s, with %s, made with differential privacy: ε = %s, δ = %s.",
		p.Loss.Name, label, amount(p.Dim, "parameter"), number(c.Epsilon), number(c.Delta))))
	section("What is guaranteed")
	line("Protected: %s.", e.Protects)
	line("Take the table and another that differs in one record. For every set S of models,")
	fmt.Fprintf(&b, "    P(model in S | one table) ≤ e^ε · P(model in S | the other) + δ,   e^ε = %s,  δ = %s\n",
		number(math.Exp(c.Epsilon)), number(c.Delta))
	line("whatever else somebody knows, now or later, and whatever they compute from the model.")
	b.WriteString("\n  A test that guesses from the model which of the two tables it was\n\n")
	for _, d := range e.Detects {
		fmt.Fprintf(&b, "    with %4s false alarms is right about the record in at most %6s of the cases\n",
			percent0(d.FalseAlarms), percent(d.Power))
	}
	section("To whom")
	line("Each record, that is each line of the table behind its header: an empty line and a comment count as "+
		"records without values, so that no edit of one line changes the number of records. "+
		"Somebody with several lines is protected less: with two, by ε = %s and δ = %s.",
		number(2*c.Epsilon), number(min(c.Delta+c.Delta*min(math.Exp(c.Epsilon), math.MaxFloat64), 1))) // 0·∞ is no number
	section("What is not covered")
	item("What is true of people in general. That smoking causes cancer can be learned from a table with or without you.")
	item("Schema, flags and budget: they are public. Had they been chosen by looking at the table, they would reveal it.")
	item("Other releases from the same table. They add up: fit with --ledger to keep account.")
	item("Error messages, running time, predictions for private rows, and privopt score. A table that is refused " +
		"for a malformed line reveals that it has one.")
	section("What it rests on")
	family, _, _ := strings.Cut(c.Theorem, ".")
	line("Theorem %s, which the documentation of package %s states (go doc github.com/privopt/privopt/%s), "+
		"and these assumptions, which the program cannot check:", c.Theorem, family, family)
	for _, assumption := range c.Assumptions {
		item(string(assumption))
	}
	item("every line is one record, and the computer that fitted was not watched")
	if enc := m.Encoder(); enc != nil && enc.Schema().File.Multiline {
		item("no line opens a quote that it does not close: the schema allows it (multiline), and such a line takes in " +
			"those after it")
	}
	section("How the model was made")
	line("%s", e.Plan)
	if ch := e.Choice; ch != nil && ch.Clip > 0 {
		line("Slopes were clipped at %s of their range; the ridge is %s and the noise on the sum of gradients %s.",
			number(ch.Clip, 3), number(ch.Ridge, 3), number(ch.Sigma, 3))
	}
	if e.Ledger != "" {
		line("%s The ledger that paid for it, with entry %s, tells: privopt ledger verify LEDGER MODEL.", e.Proof,
			e.Ledger[:12])
	} else {
		line("%s No ledger counts it: keep account of it yourself.", e.Proof)
	}
	return b.String()
}
