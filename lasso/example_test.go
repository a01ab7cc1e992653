package lasso_test

import (
	"context"
	"fmt"

	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/noise"
)

func ExampleGenerate() {
	in, err := lasso.Generate(lasso.Spec{N: 300, D: 100, Xi: 5, AnchorNoise: 0.1}, noise.Reproducible(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := in.Data(5 * in.Xi)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(in, in.Risk(in.Truth) < 1e-20)
	fmt.Println(lasso.Problem(data, 1, 0.5))
	// Output:
	// lasso.Instance(300×100) true
	// erm.Problem(300×100, Loss loss.Squared, Reg prox.L1, Set prox.Box)
}

// The published procedure at one radius: the risk of QOP there is the risk of
// its anchor.
func ExamplePaper() {
	in, err := lasso.Generate(lasso.Spec{N: 300, D: 100, Xi: 5, AnchorNoise: 0.1}, noise.Reproducible(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := lasso.PublishedParameters().Experiment(in)
	if err != nil {
		fmt.Println(err)
		return
	}
	theta, err := e.Solve(context.Background(), lasso.QOP, 1000, noise.Reproducible(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%v: risk / anchor's risk = %.1f\n", lasso.QOP, in.Risk(theta)/in.Risk(in.Anchor))
	// Output:
	// qop: risk / anchor's risk = 1.0
}

// The constants of the published figure, L = dξ².
func ExampleFormula_Constants() {
	c, err := lasso.Formula{D: 100, M: 200, Rho: 1, L: 2500, Eps1: 0.5, Delta1: 0.005, Delta3: 0.005}.Constants()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("α = %.3f, f₂ = %.2f\n", c.Alpha, c.F2)
	fmt.Printf("published α₁ = %.4e, σ² = %.4g\n", c.Published.Alpha1, c.Published.Sigma2)
	fmt.Printf("repaired  α₁ = %.4f, σ² = %.6g\n", c.Repaired.Alpha1, c.Repaired.Sigma2)
	// Output:
	// α = 9.956, f₂ = 11.14
	// published α₁ = 1.9799e-14, σ² = 2.525e+17
	// repaired  α₁ = 0.1520, σ² = 119479
}
