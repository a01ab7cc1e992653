// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

const schema = `{ "schema": 1, "records": 4000, "intercept": true,
  "label": {"column": "income", "positive": ["high"], "negative": ["low"]},
  "columns": [
    {"name": "age", "min": 20, "max": 80},
    {"name": "job", "levels": ["nurse", "pilot"], "other": true} ] }`

// people returns a made-up table in which pilots and older people earn more.
func people() string {
	var b strings.Builder
	b.WriteString("age,job,income\n")
	for i := range 4000 {
		age, job := 20+float64(i%61), []string{"nurse", "pilot", "baker"}[i%3]
		income := "low"
		if age+25*float64(i%3%2)+15*math.Sin(float64(i*i)) > 60 {
			income = "high"
		}
		fmt.Fprintf(&b, "%v,%s,%s\n", age, job, income)
	}
	return b.String()
}

// Read a table, fit a private model and predict.
func Example() {
	s, err := table.ReadSchema(strings.NewReader(schema))
	if err != nil {
		log.Fatal(err)
	}
	data, err := table.ReadCSV(strings.NewReader(people()), s)
	if err != nil {
		log.Fatal(err)
	}
	m, err := model.Fit(context.Background(), data, dp.Budget{Epsilon: 2, Delta: 1e-8}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Certificate().Theorem)
	err = m.PredictCSV(strings.NewReader("age,job\n79,pilot\n21,nurse\n"), table.Options{},
		func(p model.Prediction) error {
			fmt.Println(p.Label, p.Probabilities[p.Class] > 0.8)
			return nil
		})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// model.auto/2
	// high true
	// low true
}

// read returns the data of the first example.
func read() *table.Data {
	s, err := table.ReadSchema(strings.NewReader(schema))
	if err != nil {
		log.Fatal(err)
	}
	data, err := table.ReadCSV(strings.NewReader(people()), s)
	if err != nil {
		log.Fatal(err)
	}
	return data
}

// A plan describes a fit before the data exist.
func ExampleNewPlan() {
	s, err := table.ReadSchema(strings.NewReader(schema))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := model.NewPlan(s, dp.Budget{Epsilon: 1, Delta: model.DefaultDelta(s.Records)}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Params().Decision)
	look, err := plan.Outlook(context.Background(), 0, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(look.Useless())
	// Output:
	// Noisy gradients of all records, after noisy sums that center the rows and choose coordinates in which they have a similar spread. A last release sets the offset and the factor of the predictions. No ridge is needed.
	// false
}

// Standard errors cost a share of the budget.
func ExampleModel_Summary() {
	data := read()
	m, err := model.Fit(context.Background(), data, dp.Budget{Epsilon: 3, Delta: 1e-8},
		&model.Options{Intervals: &model.Intervals{}})
	if err != nil {
		log.Fatal(err)
	}
	age := m.Summary().Rows[1]
	fmt.Println(age.Name, age.Interval.Lower > 0, age.Interval.Weak)
	// Output:
	// age true false
}

// A saved model can be loaded by another program.
func ExampleLoad() {
	data := read()
	m, err := model.Fit(context.Background(), data, dp.Budget{Epsilon: 2, Delta: 1e-8}, nil)
	if err != nil {
		log.Fatal(err)
	}
	var file strings.Builder
	if err := m.Save(&file); err != nil {
		log.Fatal(err)
	}
	again, err := model.Load(strings.NewReader(file.String()))
	if err != nil {
		log.Fatal(err)
	}
	scores, err := again.Score(data) // scores are not private, unless the data are public
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(scores.Records, scores.Accuracy > 0.8)
	// Output: 4000 true
}
