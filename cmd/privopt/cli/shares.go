// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/privopt/privopt/table"
)

// Shares of fields from which on a column may be misread: of fields that are missing or undeclared
// levels, and of numbers that are none or outside their range, which are rare where it fits.
const (
	suspicious = 0.5
	unlikely   = 0.1
)

// sharesText prints how many fields are missing, outside their range, or not declared, and how many
// lines of persons count nowhere, and warns of columns that may be misread. It is a function of the
// rows.
func sharesText(s *table.Schema, t *table.Tally) string {
	share := func(n int) string {
		switch v := float64(n) / float64(t.Records); {
		case n == 0:
			return "0"
		case v < 0.0005:
			return humanize.Comma(int64(n)) + " (< 0.1 %)"
		default:
			return fmt.Sprintf("%s (%s)", humanize.Comma(int64(n)), percent(v))
		}
	}
	var rows [][]string
	for _, c := range t.Columns {
		if c.Missing+c.Clamped+c.Other > 0 {
			rows = append(rows, []string{printable(c.Name), share(c.Missing), share(c.Clamped), share(c.Other)})
		}
	}
	switch {
	case t.Records == 0:
		return ""
	case len(rows) == 0:
		return "Every field has a value that the schema declares.\n" + linesText(s, t)
	}
	return grid([]string{"column", "missing", "clamped", "other"}, rows) + linesText(s, t) + misreadText(s, t)
}

// linesText says how many lines of a table of persons count nowhere.
func linesText(s *table.Schema, t *table.Tally) string {
	if t.Nobody+t.Beyond == 0 {
		return ""
	}
	return paragraph("", fmt.Sprintf("Of %s, %s without an id and %s beyond the %d of a person count nowhere.",
		amount(t.Records, "line"), amount(t.Nobody, "line"), amount(t.Beyond, "line"), s.Rows))
}

// misreadText warns of columns that may be misread.
func misreadText(s *table.Schema, t *table.Tally) string {
	var b strings.Builder
	warn := func(c table.ColumnTally, n int, least float64, what string) {
		if share := float64(n) / float64(t.Records); share >= least {
			text := fmt.Sprintf("%s: %s of the fields %s", printable(c.Name), percent(share), what)
			b.WriteString(paragraph("warning: ", text))
		}
	}
	for _, c := range t.Columns {
		warn(c, c.Missing, suspicious, "are missing")
		warn(c, c.Clamped, unlikely, "are outside the range and count as its nearest end: check the range and the unit")
		least, what := suspicious, "are not declared as levels and count as \"other\""
		column := columnOf(s, c.Name)
		switch {
		case c.Name == s.Label.Column && s.Label.Min == nil:
			least, what = unlikely, "are no declared label"
		case c.Name == s.Label.Column || column != nil && column.Min != nil && column.Date == "":
			least, what = unlikely, "are no numbers and count as missing: check \"decimal\" and \"thousands\" in \"file\""
		case column != nil && column.Date != "":
			least, what = unlikely, fmt.Sprintf("are no dates by %q and count as missing", column.Date)
		}
		if c.Example != "" {
			what += fmt.Sprintf("; the first is %q", printable(c.Example))
		}
		warn(c, c.Other, least, what)
	}
	return b.String()
}
