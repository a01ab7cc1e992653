// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// columns describes the table. It is public: it must not be learned from the rows.
const columns = `{"schema": 1, "records": 300, "intercept": true,
	"label": {"column": "bought", "positive": ["yes"], "negative": ["no"]},
	"columns": [{"name": "age", "min": 18, "max": 90}, {"name": "plan", "levels": ["basic", "pro"]}]}`

// rows is the private table.
var rows = "age,plan,bought\n" + strings.Repeat("30,basic,no\n50,pro,yes\n70,pro,no\n", 100)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A private classifier from a table. The plan chose pure noise, which is smaller here, so that δ
// is not spent.
func Example() {
	schema, err := table.ReadSchema(strings.NewReader(columns)) // public
	check(err)
	data, err := table.ReadCSV(strings.NewReader(rows), schema) // private
	check(err)
	m, err := model.Fit(context.Background(), data, dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
	check(err)
	fmt.Println(len(m.Coefficients()), "coefficients")
	fmt.Println(m.Certificate())
	// Output:
	// 4 coefficients
	// (ε = 1, δ = 0)-differentially private, replace neighbors
	//   theorem: lop.envelope-pure/1
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
}
