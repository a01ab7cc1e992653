// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/prox"
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

// A private classifier from a table.
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
	// (ε = 1, δ = 1e-06)-differentially private, replace neighbors
	//   theorem: model.auto/2
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
}

// A problem of one's own: a plan, a ledger that is charged before noise is drawn, the release, its
// certificate, and the file that the ledger vouches for.
func Example_ledger() {
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(1, 2))
	rows, labels := make([][]float64, 4000), make([]float64, 4000)
	for i := range rows {
		x := rnd.Float64() - 0.5
		rows[i], labels[i] = []float64{x, 0.5}, math.Copysign(1, x+rnd.Float64()-0.5)
	}
	data, err := erm.NewData(rows, labels, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		log.Fatal(err)
	}
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}, Reg: prox.L1{Weight: 1}}
	plan, err := (&lop.Mechanism{Radius: 10}).Plan(p, dp.Budget{Epsilon: 0.5, Delta: 1e-6})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	terms, err := ledger.NewTerms(dp.Budget{Epsilon: 2, Delta: 1e-5}, dp.Replace)
	if err != nil {
		log.Fatal(err)
	}
	l, err := ledger.Create(filepath.Join(dir, "people.ledger"), terms)
	if err != nil {
		log.Fatal(err)
	}
	entry, err := l.Spend(ctx, plan, nil)
	if err != nil {
		log.Fatal(err)
	}
	rel, err := plan.Fit(ctx, p, nil)
	if err != nil {
		log.Fatal(err)
	}
	file, err := json.Marshal(rel)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(rel.Theta), "numbers,", l.Commit(ctx, entry.Hash, file) == nil)
	fmt.Println(rel.Certificate)
	fmt.Println("spent", l.Spent(), "of", l.Terms().Total)
	// Output:
	// 2 numbers, true
	// (ε = 0.5, δ = 1e-06)-differentially private, replace neighbors
	//   theorem: lop.joint/2
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
	// spent (ε = 0.5, δ = 1e-06) of (ε = 2, δ = 1e-05)
}
