// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/objpert"
)

// A halfspace with small integer weights for four one-hot columns.
func ExampleOPDisc_Fit() {
	var rows [][]int64
	var labels []int
	for i := range 2000 { // the label follows the first column, but for one in ten
		row := make([]int64, 4)
		row[i%4] = 1
		label := -1
		if (i%4 == 0) != (i%10 == 9) {
			label = 1
		}
		rows, labels = append(rows, row), append(labels, label)
	}
	p, err := objpert.NewProblem(rows, labels, nil, objpert.Lattice(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	// A real release passes nil for the source: secure noise.
	rel, err := (&objpert.OPDisc{}).Fit(context.Background(), p, dp.Budget{Epsilon: 1}, dp.Seeded(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rel.Theta)
	fmt.Println(rel.Certificate)
	// Output:
	// [1 -1 0 0]
	// (ε = 1, δ = 0)-differentially private, replace neighbors
	//   theorem: objpert.radial/2
	//   assumes: the oracle proves a minimizer on every data set: a release withheld because it did not is outside this statement
	//   assumes: the caller's random source is unpredictable, secret and never reused
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
}

// The same halfspace without noise: a point is drawn by its loss, and the certificate assumes
// nothing. Ten such releases cost ε = .65 together, not 1.
func ExampleExponential_Fit() {
	var rows [][]int64
	var labels []int
	for i := range 2000 { // the label follows the first column, but for one in ten
		row := make([]int64, 4)
		row[i%4] = 1
		label := -1
		if (i%4 == 0) != (i%10 == 9) {
			label = 1
		}
		rows, labels = append(rows, row), append(labels, label)
	}
	p, err := objpert.NewProblem(rows, labels, nil, objpert.Lattice(4))
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := (&objpert.Exponential{}).Plan(p, dp.Budget{Epsilon: 0.1})
	if err != nil {
		fmt.Println(err)
		return
	}
	rel, err := plan.Fit(context.Background(), p, dp.Seeded(1)) // a real release passes nil
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rel.Theta)
	fmt.Println(plan.Certificate())
	ten, err := dp.Compose(1e-6, slices.Repeat([]dp.Plan{plan}, 10)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("ten releases: ε = %.3f\n", ten.Epsilon)
	// Output:
	// [1 0 -1 -1]
	// (ε = 0.1, δ = 0)-differentially private, replace neighbors
	//   theorem: objpert.exponential/1
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
	// ten releases: ε = 0.652
}

// How much noise each law needs at the same budget, and what is proved for the
// published one, without any data.
func ExampleOPDisc_Plan() {
	p, err := objpert.Empty(23, objpert.Lattice(23))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, law := range []objpert.Law{objpert.Radial, objpert.Gaussian, objpert.PaperSigma} {
		plan, err := (&objpert.OPDisc{Law: law}).Plan(p, dp.Budget{Epsilon: 1, Delta: 4e-9})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(plan)
	}
	// Output:
	// objpert.radial/2: pure guarantee (ε = 1, δ = 0), replace neighbors
	//   24 noise variables on a grid of 2^-12, radial law, scale 91.012, shift 91.012, Q = 23
	//   expected excess loss ≤ 4368.58 records
	// objpert.gaussian/2: approximate guarantee (ε = 1, δ = 4e-09), replace neighbors
	//   24 noise variables on a grid of 2^-12, Gaussian law, scale 800.265, shift 91.012, Q = 23
	//   expected excess loss ≤ 7759.74 records
	// objpert.sigma/2: approximate guarantee (ε = 1.13369, δ = 4e-09), replace neighbors
	//   not proved at the budget (ε = 1, δ = 4e-09)
	//   24 noise variables on a grid of 2^-12, published sigma law, scale 707.979, shift 91.012, Q = 23
	//   expected excess loss ≤ 6864.89 records
}

// site minimizes a loss that is no halfspace and not convex: where to stand so
// that as few people as possible are out of reach,
//
//	ℓ(w; a) = min{1, ‖a − w‖²/9},   a, w ∈ ℤ²
type site struct{ people [][2]int }

// Solve looks at every point of W. p is a Custom problem: its Objective is the noise alone.
func (s site) Solve(ctx context.Context, p *objpert.Problem) (*objpert.Solution, error) {
	best := &objpert.Solution{Objective: math.Inf(1), Proven: true}
	values := p.Space().Values
	for _, x := range values { // in lexicographic order, so that ties go to the first
		for _, y := range values {
			w := []int{x, y}
			if !p.Contains(w) {
				continue
			}
			loss := 0.0
			for _, a := range s.people {
				dx, dy := a[0]-x, a[1]-y
				loss += math.Min(1, float64(dx*dx+dy*dy)/9)
			}
			if v := loss + p.Objective(w); v < best.Objective {
				best.W, best.Objective, best.Lower = slices.Clone(w), v, v
			}
		}
	}
	return best, ctx.Err()
}

func ExampleOPDisc_anyLoss() {
	s := site{}
	for i := range 900 { // two villages, the larger one around (2, 3)
		if s.people = append(s.people, [2]int{2 + i%3 - 1, 3}); i%3 == 0 {
			s.people = append(s.people, [2]int{-4, i%2 - 1})
		}
	}
	p, err := objpert.Custom(2, objpert.Lattice(25)) // ‖w‖ ≤ 5
	if err != nil {
		fmt.Println(err)
		return
	}
	m := &objpert.OPDisc{Oracle: s, Range: 1}
	rel, err := m.Fit(context.Background(), p, dp.Budget{Epsilon: 2}, dp.Seeded(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rel.Theta, rel.Certificate.Assumptions[1:3])
	// Output:
	// [2 3] [what the caller's oracle reports as proven is the minimizer, ties broken by a fixed order of the points the loss that the caller's oracle minimizes is a sum over records of functions within the declared Range and Lipschitz constant]
}

// A plan says when its guarantee is empty.
func ExampleSampPlan_Vacuous() {
	for _, d := range []int{2, 23} {
		plan, err := (&objpert.OPSamp{Dim: d, Diameter: 1, Lipschitz: 1, Records: 15682, Convex: true}).Plan(
			dp.Budget{Epsilon: 1, Delta: 4e-9},
		)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(plan.Vacuous())
		fmt.Println(plan)
	}
	// Output:
	// false
	// objpert.opsamp/2: (ε = 1, δ = 4e-09), replace neighbors
	//   3135 minimizations with tilts of rate 0.00101, S = 0.03194, then Laplace noise of scale 0.06388
	//   expected excess loss ≤ 3983 of a trivial 3.136e+04
	// true
	// objpert.opsamp/2: (ε = 1, δ = 4e-09), replace neighbors
	//   3135 minimizations with tilts of rate 8.785e-05, S = 0.3673, then Laplace noise of scale 0.7347
	//   expected excess loss ≤ 5.268e+05 of a trivial 3.607e+05
	//   warning: this bound is vacuous: any fixed point of W is as good; OPSamp needs d < √(nε)/8 and convex losses
}

// answers are 3000 records of two questions with answers −1, 0 and 1; most labels
// follow the first answer.
func answers(space objpert.Space) *objpert.Problem {
	var rows [][]int64
	var labels []int
	for i := range 3000 {
		a, b := int64(i%3-1), int64(i/3%3-1)
		label := -1
		if (a > 0) != (i%7 == 0) {
			label = 1
		}
		rows, labels = append(rows, []int64{a, b}), append(labels, label)
	}
	p, err := objpert.NewProblem(rows, labels, nil, space)
	if err != nil {
		panic(err)
	}
	return p
}

// Integer noise, exact comparisons: the certificate assumes nothing of floating
// point.
func ExampleProduct_Fit() {
	p := answers(objpert.Space{Values: []int{-1, 0, 1}, NormSq: -1})
	rel, err := (&objpert.Product{}).Fit(context.Background(), p, dp.Budget{Epsilon: 0.5}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rel.Theta[0])
	fmt.Println(rel.Certificate)
	// Output:
	// 1
	// (ε = 0.5, δ = 0)-differentially private, replace neighbors
	//   theorem: objpert.knorm/2
	//   assumes: the oracle proves a minimizer on every data set: a release withheld because it did not is outside this statement
	//   about the program: uniform secret bits, IEEE-754 arithmetic, the release alone is seen
}

// RSPM needs separators; Product does not.
func ExampleRSPM_Plan() {
	for _, values := range [][]int{{-1, 0, 1}, {-1, 0, 2}} {
		p := answers(objpert.Space{Values: values, NormSq: -1})
		plan, err := (&objpert.RSPM{}).Plan(p, dp.Budget{Epsilon: 1})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(plan)
	}
	// Output:
	// objpert.rspm-laplace/2: pure guarantee (ε = 1, δ = 0), replace neighbors
	//   4 noise variables on a grid of 2^-20, discrete Laplace law, scale 8, shift 2
	//   expected excess loss ≤ 32 records
	// objpert: dp: privacy condition not met: RSPM separates subsets of {-1,0,1}^d only, because w and 2w are one classifier without an intercept, a coordinate that admits 1 alone (Allowed); Product has no such restriction
}

// A heuristic that certifies nothing, on 50 blocks.
func ExampleSampleAndAggregate() {
	p := answers(objpert.Space{Values: []int{-1, 0, 1}, NormSq: -1})
	m := &objpert.SampleAndAggregate{
		Blocks: 50,
		Heuristic: func(_ context.Context, block *objpert.Problem) ([]int, error) {
			best := []int{0, 0} // one coordinate after the other
			for j := range best {
				for _, v := range block.Space().Values {
					w := slices.Clone(best)
					if w[j] = v; block.Loss(w) < block.Loss(best) {
						best = w
					}
				}
			}
			return best, nil
		},
	}
	rel, err := m.Fit(context.Background(), p, dp.Budget{Epsilon: 2}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rel.Theta[0], rel.Certificate.Theorem)
	// Output:
	// 1 objpert.aggregate/2
}

// median minimizes Σ|w − xᵢ| over [−1, 1]: the tilted objective has its minimum at a record or an
// end.
type median []float64

func (m median) Minimize(_ context.Context, w, sigma []float64) (gap float64, err error) {
	least := math.Inf(1)
	for _, v := range append([]float64{-1, 1}, m...) {
		value := -sigma[0] * v
		for _, x := range m {
			value += math.Abs(v - x)
		}
		if value < least {
			w[0], least = v, value
		}
	}
	return 1e-9, nil // more than rounding may have cost
}

// A median in [−1, 1], by a minimizer of one's own.
func ExampleSampPlan_Fit() {
	records := make(median, 400)
	for i := range records {
		records[i] = 0.5 + float64(i%5)/100
	}
	plan, err := (&objpert.OPSamp{Dim: 1, Diameter: 2, Lipschitz: 1, Gap: 0.01, Records: 400, Convex: true}).Plan(
		dp.Budget{Epsilon: 4, Delta: 1e-4},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	rel, err := plan.Fit(context.Background(), records, dp.Seeded(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d minimizations, vacuous: %v, %.1f\n", plan.Params().Calls, plan.Vacuous(), rel.Theta)
	// Output:
	// 116 minimizations, vacuous: false, [0.5]
}
