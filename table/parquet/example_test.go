// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package parquet_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
	table "github.com/privopt/privopt/table/parquet"
)

// The records stay in their file: each pass over the data reads them again, and brings them into
// the declared bounds. The gradient is not private; it is printed only to show that the records are
// read.
func Example() {
	dir, err := os.MkdirTemp("", "parquet")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "people.parquet")
	type person struct {
		Age    float32 `parquet:"age"`
		Hours  float64 `parquet:"hours"`
		Income float64 `parquet:"income"`
	}
	if err := parquet.WriteFile(path, []person{{0.5, 0.25, 1}, {0.25, 0.75, -1}}); err != nil {
		fmt.Println(err)
		return
	}

	src, err := table.Open(table.Options{Label: "income"}, path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer src.Close()
	data, err := erm.Open(src, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(src.Features(), data)
	g := make([]float64, 2)
	(&erm.Problem{Data: data, Loss: loss.Squared{}}).Perturb(erm.Perturbation{}).Grad(g, make([]float64, 2))
	fmt.Println(g) // the gradient is −Σᵢ bᵢaᵢ
	// Output:
	// [age hours] erm.Data(2×2)
	// [-0.25 0.5]
}
