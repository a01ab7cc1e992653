package privopt_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/table"
)

// The records stand in a CSV file; bounds are declared, and rows outside them
// are scaled in without a word.
func Example() {
	file := strings.NewReader("age,dose,response\n0.2,0.9,0.7\n-0.4,0.3,-0.1\n0.8,-0.5,NaN\n")
	data, err := table.Numeric{Bounds: loss.Bounds{Row: 1, Label: 1}, Header: true}.ReadCSV(file) // ‖a‖ ≤ 1, |b| ≤ 1
	if err != nil {
		log.Fatal(err)
	}
	p := &erm.Problem{Data: data, Loss: loss.Squared{}, Reg: prox.L1{Weight: 0.1}, Set: prox.Box{Lo: -1, Hi: 1}}
	rel, err := (&lop.Mechanism{}).Fit(context.Background(), p, dp.Budget{Epsilon: 1, Delta: 1e-6}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(rel.Theta), "coefficients")
	fmt.Println(rel.Certificate)
	// Output:
	// 2 coefficients
	// (ε = 1, δ = 1e-06)-differentially private, replace neighbors
	//   theorem: lop.joint/2
	//   assumes: the constants of the plan, computed in float64 arithmetic and tested against 60 digits, are no smaller than the theorem asks for
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
}
