package model

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Row is a line of a Summary.
type Row struct {
	Class    string  `json:"class,omitempty"` // of a label with levels
	Name     string  `json:"name"`
	Estimate float64 `json:"estimate"` // of the release, in the units of the file
	// The rest needs Options.Intervals.
	Debiased     float64 `json:"debiased,omitzero"` // estimate without the shrinkage by the ridge, the middle of the interval
	StdErr       float64 `json:"stdErr,omitzero"`   // of Debiased: sampling, privacy and the noise of the sums
	Lower        float64 `json:"lower,omitzero"`    // end of the interval; 0 with Unidentified
	Upper        float64 `json:"upper,omitzero"`
	Z            float64 `json:"z,omitzero"`            // Debiased/StdErr
	P            float64 `json:"p,omitzero"`            // of a test of 0, two-sided; 1 if Weak
	PrivacyShare float64 `json:"privacyShare,omitzero"` // share of the noise in the variance
	// Weak tells that the data do not identify the coefficient at this budget: its
	// interval rests on the declared Radius.
	Weak bool `json:"weak,omitzero"`
	// Unidentified tells that no Radius was declared for such a coefficient: its
	// interval is the whole line.
	Unidentified bool `json:"unidentified,omitzero"`
}

// Summary lists the coefficients of a model.
type Summary struct {
	Rows  []Row   `json:"rows"`
	Level float64 `json:"level,omitzero"` // of the intervals, 0 without them
}

// Summary returns the coefficients in the units of the file, with standard errors if
// Options.Intervals asked for them.
func (m *Model) Summary() Summary {
	var s Summary
	if m.encoder == nil {
		for j, v := range m.theta {
			s.Rows = append(s.Rows, Row{Name: fmt.Sprintf("x%d", j+1), Estimate: v})
		}
		return s
	}
	for _, c := range m.Coefficients() {
		s.Rows = append(s.Rows, Row{Class: c.Class, Name: c.Name, Estimate: c.Value})
	}
	return s
}

// String returns the summary as a table for a terminal.
func (s Summary) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "coefficient\testimate")
	for _, r := range s.Rows {
		fmt.Fprintf(w, "%s%s\t%.4g\n", r.Class, r.Name, r.Estimate)
	}
	w.Flush()
	return b.String()
}
