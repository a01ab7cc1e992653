// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/gonum/floats"
)

// Row is an estimated linear function of the coefficients, such as one coefficient or a prediction.
type Row struct {
	Class    string  `json:"class,omitzero"` // of a label with levels
	Name     string  `json:"name,omitzero"`
	Estimate float64 `json:"estimate"` // of the release, in the units of the file
	// Interval is nil without Options.Intervals.
	Interval *Interval `json:"interval,omitempty"`
}

// Interval is a confidence interval for the minimizer of the expected fitted loss, with its clip
// and without any ridge. It accounts for sampling, for the noise of the minimizer, for its
// shrinkage by the ridge and for the noise of the standard error itself.
type Interval struct {
	Debiased float64 `json:"debiased"` // the estimate without the shrinkage, the middle of the interval
	StdErr   float64 `json:"stdErr"`   // of Debiased
	// PrivacyErr is the part of StdErr that comes from noise: the error relative to the minimizer
	// without privacy on the same records.
	PrivacyErr   float64 `json:"privacyErr"`
	PrivacyShare float64 `json:"privacyShare"` // share of the variance that comes from the noise on the gradients
	Lower        float64 `json:"lower"`
	Upper        float64 `json:"upper"`
	Z            float64 `json:"z"` // Debiased/StdErr
	P            float64 `json:"p"` // two-sided, of the value 0; 1 if Weak
	// Weak reports that the records do not identify the estimate at this budget: the interval is
	// conservative and relies on Intervals.Radius, declared or by default. The coefficient of a level
	// that hardly occurs is weak, and its Estimate is the effect of an average row, at which other
	// estimates hold it.
	Weak bool `json:"weak,omitzero"`
	// Unidentified reports a weak estimate of data without a schema for which no Radius is declared.
	// Its interval is the whole line, and Lower and Upper are 0, in JSON null.
	Unidentified bool `json:"unidentified,omitzero"`
}

// MarshalJSON writes the bounds of an interval that is the whole line as null.
func (i Interval) MarshalJSON() ([]byte, error) {
	type plain Interval
	if !i.Unidentified {
		return json.Marshal(plain(i))
	}
	return json.Marshal(struct {
		plain
		Lower *float64 `json:"lower"`
		Upper *float64 `json:"upper"`
	}{plain: plain(i)})
}

// Summary lists the coefficients of a model in the units of the file, those of
// [table.Encoder.Forms] without the zeros of reference levels.
type Summary struct {
	Rows  []Row   `json:"rows"`
	Level float64 `json:"level,omitzero"` // of the intervals, 0 without them
	// Absent is the deviation that noise alone gives the coefficient of a level that no record has, at
	// most, where a model keeps it: after one release, of which no output shows such levels. Else it
	// is 0.
	Absent float64 `json:"absentLevel,omitzero"`
	// Average names levels that have mostly the effect of an average row, see [Choice].
	Average []string `json:"average,omitempty"`
	Note    string   `json:"note"`
}

// Summary returns the coefficients, with intervals if Options.Intervals was set. Each p-value is
// for one coefficient: testing several needs a correction.
func (m *Model) Summary() Summary {
	s, q := m.estimates()
	if s.Level > 0 {
		s.Note = m.note(s.Rows, q)
	}
	return s
}

// estimates is Summary without the note on intervals.
func (m *Model) estimates() (Summary, *inference) {
	s := Summary{Note: "No standard errors: to release them, set Options.Intervals, which takes a share of the budget."}
	var inf *inference
	if m.moments != nil {
		inf = m.inference()
		s.Level = m.params.Intervals.Level
	}
	s.Absent = absentNoise(m.params.Release, m.encoder)
	if c := m.Choice(); c != nil {
		s.Average = c.Average
	}
	add := func(r Row, constant float64, fill func(k []float64)) { // of constant + ⟨k,θ⟩
		if inf != nil {
			k := make([]float64, len(m.theta))
			fill(k)
			r.Interval = inf.interval(k, constant)
		}
		s.Rows = append(s.Rows, r)
	}
	if m.encoder == nil {
		for j, v := range m.theta {
			add(Row{Name: fmt.Sprintf("x%d", j+1), Estimate: v}, 0, func(k []float64) { k[j] = 1 })
		}
		return s, inf
	}
	for _, f := range m.encoder.Forms() {
		if len(f.At) == 0 && f.Column != "" { // a reference
			continue
		}
		c := f.Apply(m.theta)
		add(Row{Class: c.Class, Name: c.Name, Estimate: c.Value}, f.Constant, func(k []float64) {
			for i, j := range f.At {
				k[j] = f.Weights[i]
			}
		})
	}
	return s, inf
}

// note says what the intervals of rows estimate and suppose.
func (m *Model) note(rows []Row, q *inference) string {
	note := "The intervals account for sampling, privacy noise, shrinkage and the noise of the standard errors. "
	if c := m.choice; c.Clip > 0 {
		note += fmt.Sprintf("They estimate the coefficients of least squares with gradients clipped at %.3g of their "+
			"range, without a ridge; if the errors are symmetric, these are the ordinary coefficients.", c.Clip)
	} else {
		note += "They estimate the minimizer of the fitted loss without its ridge."
	}
	weak := slices.ContainsFunc(rows, func(r Row) bool { return r.Interval != nil && r.Interval.Weak })
	if weak {
		note += " A coefficient marked weak is not identified at this budget: drop or merge columns, raise ε, or declare a " +
			"smaller bound on the norm of the true coefficients. Without such a bound, intervals of weak coefficients suppose " +
			"that no column changes a prediction by more than the width of the range of the label, or than 10 in log odds."
	}
	if q == nil || len(q.few) == 0 || !weak && q.part == nil {
		return note
	}
	few, more := []string{}, ""
	for i, j := range q.few {
		if few = append(few, m.encoder.Features()[j].Name); i == 9 && len(q.few) > 10 {
			more = fmt.Sprintf(" and %d more", len(q.few)-10)
			break
		}
	}
	about := " These may be why others are weak: drop them, or narrow their ranges."
	if q.part != nil {
		about = " The other intervals suppose that they have the effect of an average row."
	}
	return note + " At this budget noise hides the variation of: " + strings.Join(few, ", ") + more + "." + about
}

// Contrast estimates ⟨k,θ⟩, with θ in the units of encoded rows, and with an interval if
// Options.Intervals was set. The error wraps [ErrOptions] if k has another length than θ.
func (m *Model) Contrast(k []float64) (Row, error) {
	if m == nil {
		return Row{}, fmt.Errorf("%w: the model is nil, want one made by Fit or Load", ErrOptions)
	}
	if len(k) != len(m.theta) {
		return Row{}, fmt.Errorf("%w: a contrast of %d numbers, want %d", ErrOptions, len(k), len(m.theta))
	}
	r := Row{Estimate: floats.Dot(k, m.theta)}
	if m.moments != nil {
		r.Interval = m.inference().interval(k, 0)
	}
	return r, nil
}

// String returns the estimates and their intervals as a table for a terminal. Rows has the other
// numbers.
func (s Summary) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "coefficient\testimate")
	if s.Level > 0 {
		fmt.Fprintf(w, "\t%g %% interval", 100*s.Level)
	}
	for _, r := range s.Rows {
		fmt.Fprintf(w, "\n%s\t%.4g", strings.TrimPrefix(r.Class+": "+r.Name, ": "), r.Estimate)
		switch i := r.Interval; {
		case i == nil:
		case i.Unidentified:
			fmt.Fprint(w, "\t(−∞, ∞)\tweak")
		case i.Weak:
			fmt.Fprintf(w, "\t[%.3g, %.3g]\tweak", i.Lower, i.Upper)
		default:
			fmt.Fprintf(w, "\t[%.3g, %.3g]", i.Lower, i.Upper)
		}
	}
	_ = w.Flush() // a Builder does not fail
	return b.String() + "\n" + s.Note + "\n"
}

// finite replaces NaN and infinities by 0.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
