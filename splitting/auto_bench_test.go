package splitting_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/splitting"
	"github.com/privopt/privopt/splitting/splittest"
)

// BenchmarkAuto times, for every row of the table at Minimize, the method that
// Auto picks first and then others that apply, each to the same residual.
func BenchmarkAuto(b *testing.B) {
	race := func(name string, p splitting.Problem, x0 []float64, tol float64, others map[string]splitting.Method) {
		run := func(method string, m splitting.Method) {
			b.Run(fmt.Sprintf("problem=%s/method=%s", name, method), func(b *testing.B) {
				b.ReportAllocs()
				iters := 0
				for b.Loop() {
					res, err := splitting.Solve(background, p, x0, &splitting.Settings{Tolerance: tol}, m)
					if err != nil {
						b.Fatal(err)
					}
					if res.Status != splitting.Converged {
						b.Fatal(res.Status)
					}
					iters += res.Iterations
				}
				b.ReportMetric(float64(iters)/float64(b.N), "iters/op")
			})
		}
		pick := splitting.Auto(p, len(x0))
		run("Auto-"+strings.TrimPrefix(fmt.Sprintf("%T", pick), "*splitting."), pick)
		for method, m := range others {
			run(method, m)
		}
	}
	for _, s := range [][2]int{{1000, 500}, {4000, 50}, {15682, 23}} {
		n, d := s[0], s[1]
		a, y := lassoBox(n, d, d*2/5, 1)
		f := leastSquares(b, a, y)
		race(fmt.Sprintf("leastsquares-%dx%d", n, d), splitting.Problem{F: f, G: prox.L1{Weight: 200}, H: prox.Box{Lo: -1.25, Hi: 1.25}},
			make([]float64, d), 1e-6*f.Smoothness(), map[string]splitting.Method{"ForwardBackward": &splitting.ForwardBackward{}})
	}
	_, exact := experiment(300, 100, 1, true)
	race("quadratic-100", splitting.Problem{F: exact, G: prox.L1{Weight: 1}, H: prox.Box{Lo: -1, Hi: 1}}, make([]float64, 100),
		1e-9*exact.Smoothness(),
		map[string]splitting.Method{"ProxNewton": &splitting.ProxNewton{}, "ForwardBackward": &splitting.ForwardBackward{}})
	for _, p := range splittest.Planted() {
		var others map[string]splitting.Method
		switch p.Name {
		case "logistic/l1+box", "logistic/ball":
			others = map[string]splitting.Method{"ForwardBackward": &splitting.ForwardBackward{}, "DavisYin": &splitting.DavisYin{}}
		case "logistic/group":
			others = map[string]splitting.Method{"DavisYin": &splitting.DavisYin{}}
		case "logistic/group+box":
		default:
			continue
		}
		race(p.Name, p.Problem, p.Start, p.Tolerance(), others)
	}
}
