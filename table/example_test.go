// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package table_test

import (
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
)

const schema = `{ "schema": 1, "records": 3, "intercept": true, "missing": ["?"],
  "label": {"column": "income", "positive": ["high"], "negative": ["low"]},
  "columns": [
    {"name": "age", "min": 20, "max": 80},
    {"name": "job", "levels": ["nurse", "pilot"], "other": true} ] }`

// A schema and a file make records. Their rows have norm at most 1 by construction. Data prints as
// its dimensions only.
func Example() {
	s, err := table.ReadSchema(strings.NewReader(schema))
	if err != nil {
		log.Fatal(err)
	}
	data, err := table.ReadCSV(strings.NewReader("age,job,income\n50,pilot,high\n35,?,low\n80,baker,high\n"), s)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(data, data.Encoder.Bounds())
	for _, c := range data.Encoder.Coefficients([]float64{0.5, 1, 0, -1, 2}) {
		fmt.Printf("%-12s %6.3f\n", c.Name, c.Value)
	}
	// Output:
	// table.Data(3×5) {1 1}
	// (intercept)  -0.674
	// age           0.019
	// job=nurse     0.000
	// job=pilot    -0.577
	// job other     1.155
}

// An error names the place and the fix, but never the value of a private field.
func ExampleReadSchema() {
	_, err := table.ReadSchema(strings.NewReader(strings.Replace(schema, `"max": 80`, `"max": 10`, 1)))
	fmt.Println(err)
	s, err := table.ReadSchema(strings.NewReader(schema))
	if err != nil {
		log.Fatal(err)
	}
	_, err = table.ReadCSV(strings.NewReader("age,job,income\nforty,pilot,high\n"), s)
	fmt.Println(err)
	// Output:
	// table: invalid schema: columns[0].min: 20 is not below max = 10: swap or widen them
	// table: invalid table: line 2, column 1 ("age"): text, want a number, or a spelling listed in "missing"
}

// Rows reads the rows one at a time, here without a label, as for predictions.
func ExampleEncoder_Rows() {
	s, err := table.ReadSchema(strings.NewReader(schema))
	if err != nil {
		log.Fatal(err)
	}
	e, err := s.Encoder()
	if err != nil {
		log.Fatal(err)
	}
	theta := []float64{0.5, 1, 0, -1, 2}
	rows, err := e.Rows(strings.NewReader("job,age\npilot,80\nnurse,20\n"), table.Options{Unlabeled: true})
	if err != nil {
		log.Fatal(err)
	}
	for rows.Next() {
		u := 0.0
		col, val := rows.Row()
		for k, j := range col {
			u += theta[j] * val[k]
		}
		fmt.Printf("%.3f %s\n", u, e.LabelText(u))
	}
	if err := rows.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0.289 high
	// -0.289 low
}

// A table of numbers needs bounds, but no schema.
func ExampleNumeric_ReadCSV() {
	n := table.Numeric{Bounds: loss.Bounds{Row: 1, Label: 1}}
	data, err := n.ReadCSV(strings.NewReader("age,dose,outcome\n0.6,0.7,1\n3,4,-7\nNaN,0.5,0\n"))
	fmt.Println(data, err)
	_, err = n.ReadCSV(strings.NewReader("age,dose,outcome\n0.6,high,1\n"))
	fmt.Println(err)
	// Output:
	// erm.Data(3×2) <nil>
	// table: invalid table: line 2, column 2 ("dose"): text, want a number, NaN for a missing one
}

// Draft a first schema from public rows.
func ExampleDraft() {
	s, _, err := table.Draft(strings.NewReader("price,sold\n120,yes\n?,no\n350,yes\n"),
		table.Schema{Label: table.Label{Column: "sold"}})
	if err != nil {
		log.Fatal(err)
	}
	s.Records = 1000 // a person who knows the number declares it
	if _, err := s.WriteTo(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {
	//   "schema": 1,
	//   "records": 1000,
	//   "label": {
	//     "column": "sold",
	//     "positive": [
	//       "yes"
	//     ],
	//     "negative": [
	//       "no"
	//     ]
	//   },
	//   "intercept": true,
	//   "missing": [
	//     "",
	//     "?",
	//     "NA",
	//     "NaN"
	//   ],
	//   "columns": [
	//     {
	//       "name": "price",
	//       "min": 120,
	//       "max": 350,
	//       "other": true,
	//       "missing": true
	//     }
	//   ]
	// }
}
