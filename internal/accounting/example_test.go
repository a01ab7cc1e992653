package accounting_test

import (
	"fmt"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/accounting"
)

// The noise for 1000 steps of stochastic gradient descent in which every record
// takes part with probability 1 %, and what the steps cost at another δ.
func ExampleNoise() {
	sampler := accounting.Poisson{Rate: 0.01}
	z, err := accounting.Noise(sampler, 1000, dp.Budget{Epsilon: 1, Delta: 1e-5})
	if err != nil {
		fmt.Println(err)
		return
	}
	step, err := accounting.Gaussian(sampler, z)
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := accounting.Compose(step.Times(1000))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("noise %.2f times the clipping norm\n", z)
	fmt.Printf("ε = %.2f at δ = 1e-8\n", all.Epsilon(1e-8))
	// Output:
	// noise 2.66 times the clipping norm
	// ε = 1.40 at δ = 1e-8
}
