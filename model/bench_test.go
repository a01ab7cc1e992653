// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/table"
)

// Labels of a schema, by task.
var taskLabels = map[string]string{
	"two classes":   `{"column": "y", "positive": ["2"], "negative": ["5"], "unknown": "negative"}`,
	"three classes": `{"column": "y", "levels": ["2", "5", "8"]}`,
	"a number":      `{"column": "y", "min": 0, "max": 10, "unknown": "middle"}`,
}

// taskSchema returns a schema for a task with more entries, such as `"person": "who", "rows": 20,`.
func taskSchema(tb testing.TB, task, more string, records int) *table.Schema {
	tb.Helper()
	s, err := table.ReadSchema(strings.NewReader(fmt.Sprintf(`{"schema": 1, "records": %d, "intercept": true, %s
		"label": %s, "columns": [{"name": "x", "min": 0, "max": 10}, {"name": "k", "levels": ["p", "q"]}]}`,
		records, more, taskLabels[task])))
	require.NoError(tb, err)
	return s
}

// Whole plans, proofs included.
func BenchmarkPlan(b *testing.B) {
	b.ReportAllocs()
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, c := range []struct {
			name, task, more string
			options          Options
		}{
			{name: "classes", task: "two classes"},
			{name: "three-classes", task: "three classes"},
			{name: "gradients", task: "a number"},
			{name: "intervals", task: "a number", options: Options{Intervals: &Intervals{}}},
			{name: "persons", task: "a number", more: `"person": "who", "rows": 20,`},
		} {
			s := taskSchema(b, c.task, c.more, 30_000)
			c.options.Relation = rel
			b.Run(fmt.Sprintf("%v/%s", rel, c.name), func(b *testing.B) {
				for b.Loop() {
					_, err := NewPlan(s, dp.Budget{Epsilon: 1, Delta: 1e-9}, &c.options)
					require.NoError(b, err)
				}
			})
		}
	}
}
