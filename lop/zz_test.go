package lop_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

func TestZZ(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n, d := 10000, 12
	rows := make([][]float64, n)
	y := make([]float64, n)
	for i := range rows {
		rows[i] = make([]float64, d)
		for j := range rows[i] {
			rows[i][j] = r.NormFloat64()
		}
		y[i] = 1
		if rows[i][0]+r.NormFloat64() < 0 {
			y[i] = -1
		}
	}
	data, err := erm.NewData(rows, y, loss.Bounds{Row: 1, Label: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := &erm.Problem{Data: data, Loss: loss.Logistic{}, Records: n}
	for _, b := range []dp.Budget{{Epsilon: 1, Delta: 1e-9}, {Epsilon: 1}} {
		for _, rel := range []dp.Relation{dp.Replace, dp.AddRemove} {
			m := &lop.Mechanism{Relation: rel, Radius: 10, Trace: func(t erm.Trace) { fmt.Printf("%+v %v\n", t.Distance, t.Iterations) }}
			t0 := time.Now()
			pl, err := m.Plan(p, b)
			if err != nil {
				t.Fatal(err)
			}
			t1 := time.Now()
			rel, err := pl.Fit(context.Background(), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(t1.Sub(t0), time.Since(t1), pl, pl.Params().Cover, pl.Params().OutputSigma, rel.Theta[:3])
			fmt.Println(rel.Certificate, pl.Profile().Delta(b.Epsilon))
		}
	}
	o := &lop.Output{Radius: 10}
	rel, err := o.Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-9}, rand.NewPCG(1, 2))
	fmt.Println(rel, err)
}
