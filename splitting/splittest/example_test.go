package splittest_test

import (
	"fmt"

	"github.com/privopt/privopt/splitting/splittest"
)

// The problems that splittest.Check(t, &splitting.Name{}) runs: each was made from its
// minimizer.
func ExamplePlanted() {
	for _, p := range splittest.Planted()[:1] {
		fmt.Println(p.Func(p.Solution) <= p.Func(p.Start))
	}
	// Output: true
}
