// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/beam"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table/npy"
)

// Fit a logistic model to records in two files. Each pass over them is one job of the runner prism.
// The program must first call beam.Init of the SDK, as the TestMain of these tests does.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	paths := []string{filepath.Join(dir, "0.npy"), filepath.Join(dir, "1.npy")}
	for _, path := range paths {
		if err := write(path); err != nil {
			fmt.Println(err)
			return
		}
	}

	ctx := context.Background()
	src, err := beam.NewSource(ctx, paths, beam.Options{Runner: "prism", Shards: 4, Scratch: dir})
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
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
	rel, err := (&lop.Mechanism{Radius: 5}).Fit(ctx, p, dp.Budget{Epsilon: 1, Delta: 1e-9}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f\n", rel.Theta)
	fmt.Println(rel.Certificate.Budget)
	// Output:
	// [3.5]
	// (ε = 1, δ = 1e-09)
}

// write writes 40000 records with a feature of ±1. The label equals the feature in 97 of 100
// records.
func write(path string) error {
	w, err := npy.Create(path, []string{"feature", "label"}, npy.Options{})
	if err != nil {
		return err
	}
	defer w.Close()
	for i := range 40000 {
		feature := float64(2*(i%2) - 1)
		label := feature
		if i/2%100 < 3 {
			label = -label
		}
		if err := w.Append([]float64{feature}, label); err != nil {
			return err
		}
	}
	return w.Commit()
}
