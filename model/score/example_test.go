// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/table"
)

// The accuracy of a model on private records that it was not fitted to.
func Example() {
	ctx := context.Background()
	schema, err := table.ReadSchema(strings.NewReader(`{ "schema": 1, "intercept": true,
	  "label": {"column": "sick", "positive": ["yes"], "negative": ["no"]},
	  "columns": [ {"name": "age", "min": 0, "max": 100} ] }`))
	if err != nil {
		fmt.Println(err)
		return
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) string { // made-up records: the old are often sick
		var b strings.Builder
		b.WriteString("age,sick\n")
		for range n {
			age := rnd.IntN(100)
			fmt.Fprintf(&b, "%d,%s\n", age, []string{"no", "yes"}[min((age+rnd.IntN(40))/70, 1)])
		}
		return b.String()
	}
	data, err := table.ReadCSV(strings.NewReader(draw(5000)), schema)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := model.Fit(ctx, data, dp.Budget{Epsilon: 1, Delta: 1e-7}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := score.NewPlan(m, dp.Budget{Epsilon: 1, Delta: 1e-7}, &score.Options{Records: 3000})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := score.ReadCSV(ctx, m, strings.NewReader(draw(3000)), table.Options{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	scores, err := plan.Score(ctx, set)
	if err != nil {
		fmt.Println(err)
		return
	}
	accuracy, _ := scores.Metric("accuracy")
	fmt.Println(accuracy.Value > 0.8, accuracy.StdErr < 0.02, scores.Certificate.Theorem)
	// Output: true true model.score/1
}
