// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

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

// explained is the output of explain --json.
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

// noProof warns that a model file can be edited.
const noProof = "The file proves nothing by itself: whoever holds it can change its numbers, ε and δ included."

// detection bounds the power of a test that distinguishes two neighboring tables.
type detection struct {
	FalseAlarms float64 `json:"falseAlarms"`
	Power       float64 `json:"powerAtMost"`
}

func (a *app) explain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain MODEL",
		Short: "Explain what a model guarantees, to whom, under which assumptions",
		Long: `Explain in plain words what a model guarantees, to whom, and under which assumptions.

The text may be published with the model.`,
		Example: "  privopt explain model.json\n  privopt explain model.json --json",
		Args:    oneArg("MODEL"),
		RunE: a.do(func(ctx context.Context, args []string) error {
			m, err := a.readModel(ctx, "MODEL", args[0])
			if err != nil {
				return err
			}
			e := newExplained(m)
			return a.show(e, e.text(m))
		}),
	}
}

func newExplained(m *model.Model) *explained {
	c := m.Certificate()
	return &explained{
		Private: !slices.Contains(c.Assumptions, dp.CallerSource), Certificate: c, Protects: protects(c),
		Detects: []detection{{0.01, power(c.Budget, 0.01)}, {0.05, power(c.Budget, 0.05)}, {0.2, power(c.Budget, 0.2)}},
		Plan:    m.Describe(), Choice: m.Choice(), Ledger: m.LedgerHead(),
		Proof: noProof,
	}
}

func protects(c dp.Certificate) string {
	one, number := "the values of any one record", "the number of records is "
	its := "the record"
	if c.Rows > 0 {
		one, its = "all lines of any one person", "the person"
		number = "the number of persons is "
	}
	if c.Relation == dp.AddRemove {
		return fmt.Sprintf("%s, and whether %s is in the table at all; %sprotected as well", one, its, number)
	}
	return fmt.Sprintf("%s; %snot protected", one, number)
}

// power bounds the probability that a test detects which of two neighboring tables was
// used, if it gives a false alarm with probability alpha:
//
//	min{ e^ε α + δ, 1 − e^{−ε}(1 − δ − α) }
func power(b dp.Budget, alpha float64) float64 {
	return min(math.Exp(b.Epsilon)*alpha+b.Delta, 1-math.Exp(-b.Epsilon)*(1-b.Delta-alpha), 1)
}

// strength says what the best test is that the budget allows, by its power at 5 % false alarms.
func strength(b dp.Budget) string {
	switch p := power(b, 0.05); {
	case p <= 0.15:
		return "is weak"
	case p <= 0.5:
		return "is better than guessing"
	case p <= 0.96:
		return "may be strong"
	}
	return "may be almost certain, as this ε protects little"
}

// loose warns of a budget that protects little, before it is spent: of an ε at which a test of one
// record may be almost certain, and of a δ at which a mechanism may publish some records.
func (a *app) loose(b dp.Budget, records int, person bool) {
	if power(b, 0.05) > 0.96 {
		a.note("warning: ε = %s protects little: a test with 5 %% false alarms may detect one %s in %s of the cases. "+
			"1 is common.", claim(b.Epsilon), unit(person), atMost(power(b, 0.05)))
	}
	if records > 0 && b.Delta*float64(records) > 0.01 {
		a.note("warning: δ = %s is more than 0.01/n₀ for %s: with this probability each, a mechanism may publish %s as they "+
			"are. The default is 1/n₀² = %s.", claim(b.Delta, 3), amount(records, unit(person)), units(person),
			claim(model.DefaultDelta(records), 3))
	}
}

// twice returns the δ that goes with 2ε for neighbors two steps apart.
func twice(b dp.Budget) float64 {
	return min(b.Delta+b.Delta*min(math.Exp(b.Epsilon), math.MaxFloat64), 1) // not 0·∞
}

// prose is where the explanation goes: a terminal or a page.
type prose struct {
	section, line, item, formula func(text string)
}

func (e *explained) text(m *model.Model) string {
	var b strings.Builder
	margin := ""
	e.tell(m, prose{
		section: func(title string) { margin = "  "; b.WriteString("\n" + title + "\n\n") },
		line:    func(text string) { b.WriteString(paragraph(margin, text)) },
		item:    func(text string) { b.WriteString(paragraph("  - ", text)) },
		formula: func(text string) { b.WriteString(text) },
	})
	return b.String()
}

// tell explains the guarantee, after a line or two without a section.
func (e *explained) tell(m *model.Model, to prose) {
	c := e.Certificate
	section := to.section
	line := func(format string, args ...any) { to.line(printable(fmt.Sprintf(format, args...))) }
	item := func(text string) { to.item(printable(text)) }
	if !e.Private {
		to.line("NOT PRIVATE: the noise came from a source that the caller chose, such as --seed. " +
			"Whoever can guess that source learns the records. The guarantee below holds only if nobody can guess it.")
		to.formula("\n")
	}
	p := m.Params()
	label := ""
	if enc := m.Encoder(); enc != nil {
		label = " that predicts " + printable(enc.Schema().Label.Column)
	}
	line("A %s model%s, with %s, fitted with differential privacy: ε = %s, δ = %s.",
		p.Loss.Name, label, amount(p.Dim, "parameter"), claim(c.Epsilon), claim(c.Delta, 3))
	section("What is guaranteed")
	line("Protected: %s.", e.Protects)
	who, differs := "record", "one record"
	if c.Rows > 0 {
		who, differs = "person", "all lines of one person"
	}
	line("Compare the table with any other table that differs from it in %s. For every set S of models,", differs)
	to.formula(fmt.Sprintf("    P(model in S | one table) ≤ e^ε · P(model in S | other table) + δ,\n"+
		"    e^ε = %s, δ = %s,\n",
		claim(math.Exp(c.Epsilon)), claim(c.Delta, 3)))
	line("in both directions. This holds whatever else a reader of the model knows, now or later, and whatever the " +
		"reader computes from the model.")
	to.formula("\n")
	line("So a test that tries to detect one particular %s in the model %s:", who, strength(c.Budget))
	tests := "\n"
	for _, d := range e.Detects {
		tests += fmt.Sprintf("    with %4s false alarms, it detects the %s in at most %6s of cases\n",
			percent0(d.FalseAlarms), who, atMost(d.Power))
	}
	to.formula(tests)
	section("To whom")
	if c.Rows > 0 {
		column := " that the schema names"
		if c.Person != "" {
			column = fmt.Sprintf(" %q", c.Person)
		}
		line("To each person, with all lines of that person, however many. A person is an id in the column%s. Of "+
			"the lines of one person at most %d count, chosen by a public rule from these lines alone; their weights add up to "+
			"at most 1. Lines without an id count nowhere. Somebody with several ids is protected less: "+
			"with two ids, by ε = %s and δ = %s.", column, c.Rows, claim(2*c.Epsilon), claim(twice(c.Budget), 3))
	} else {
		line("To each record. A record is one line of the table after its header. An empty line and a comment count as "+
			"records without values, so that no edit of one line changes the number of records. A person with several lines "+
			"is protected less: with two lines, by ε = %s and δ = %s.", claim(2*c.Epsilon), claim(twice(c.Budget), 3))
	}
	section("What is not covered")
	item("Facts about people in general. Whether smoking causes cancer can be learned from a table with or without you.")
	item("Schema, flags and budget. They are public. If they were chosen by looking at the private table, they reveal " +
		"part of it.")
	item("Other releases from the same table. Their ε and δ add up: fit with --ledger to count and limit them.")
	item("Error messages, running time, predictions for private rows, and the output of privopt score. For example, " +
		"the error about a malformed line reveals that the table has such a line.")
	section("Under which assumptions")
	family, _, _ := strings.Cut(c.Theorem, ".")
	line("The guarantee is theorem %s, stated in the documentation of package %s (go doc "+
		"github.com/privopt/privopt/%s). It holds under assumptions that the program cannot check:",
		c.Theorem, family, family)
	for _, assumption := range c.Assumptions {
		item(string(assumption))
	}
	if c.Rows == 0 {
		item("each line is one record")
	}
	item("nobody observed the computer during the fit")
	section("How the model was made")
	line("%s", e.Plan)
	if ch := e.Choice; ch != nil && ch.Clip > 0 {
		line("Slopes are clipped at %s of their range. The ridge is %s; the noise on the sum of gradients has standard "+
			"deviation %s.", number(ch.Clip, 3), number(ch.Ridge, 3), number(ch.Sigma, 3))
	}
	if e.Ledger != "" {
		line("%s Check it against its ledger, entry %s: privopt ledger verify LEDGER MODEL.", e.Proof,
			e.Ledger[:12])
	} else {
		line("%s No ledger counts this model: add its ε and δ to those of other releases yourself.", e.Proof)
	}
}
