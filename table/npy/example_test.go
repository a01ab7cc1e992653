// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package npy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/table/npy"
)

// A file is written record by record and read in any order. The values here are not private.
func Example() {
	dir, err := os.MkdirTemp("", "npy")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "people.npy")
	w, err := npy.Create(path, []string{"age", "hours", "income"}, npy.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close() // this removes the file unless it was committed
	for i := range 1000 {
		if err := w.Append([]float64{float64(20 + i%60), 40}, float64(i)); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := w.Commit(); err != nil {
		fmt.Println(err)
		return
	}

	f, err := npy.Open(path) // numpy.load can read the file too
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	fmt.Println(f.Columns(), "label:", f.Label())
	fmt.Println(f.Dims())
	rows, labels := make([]float64, 2*2), make([]float64, 2)
	if err := f.Read(context.Background(), rows, labels, 998); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rows, labels)
	// Output:
	// [age hours income] label: income
	// 1000 2
	// [58 40 59 40] [998 999]
}
