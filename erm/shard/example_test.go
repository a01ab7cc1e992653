package shard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/erm/shard"
	"github.com/privopt/privopt/loss"
)

// ones is a source of equal records.
type ones struct{}

func (ones) Dims() (records, features int) { return 20_000, 1 }

func (ones) Read(_ context.Context, rows, labels []float64, _ int) error {
	for i := range labels {
		rows[i], labels[i] = 1, 1
	}
	return nil
}

// Two workers, here in the same process, add up a gradient for a driver.
func Example() {
	dir, err := os.MkdirTemp("", "shard")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, folder := context.Background(), filepath.Join(dir, "cluster")
	ended := make(chan error)
	for i := range 2 {
		w := &shard.Worker{Folder: folder, Shard: i + 1, Shards: 2, Source: ones{}}
		go func() { ended <- w.Serve(ctx) }()
	}
	d, err := shard.NewDriver(ctx, folder, ones{}, shard.Options{Shards: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := erm.Open(d, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	o := (&erm.Problem{Data: data, Loss: loss.Squared{}}).Perturb(erm.Perturbation{})
	gradient := make([]float64, 1)
	o.Grad(gradient, []float64{3})
	fmt.Println(gradient, o.Err())
	fmt.Println(d.Close(), <-ended, <-ended)
	// Output:
	// [40000] <nil>
	// <nil> <nil> <nil>
}
