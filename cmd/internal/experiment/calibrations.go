package experiment

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/cmd/internal/scaling"
	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/objpert"
	"github.com/privopt/privopt/qop"
)

// noises returns the noise of a method at ε and the ε that is proved for it, 0 if nothing is.
type noises func(epsilon float64) (noise, proved float64, err error)

// Calibrations is published, repaired and own noise against ε ≤ 1. Neighbors are replaced
// records, losses have L = β = 1, the column proved is the ε that is proved for the noise.
//
//	qop     mean curvature σ²m added per direction, d parameters, δ = 0.01 [CC26]
//	lop     σ of the linear term at the published ridge 2β/ε, δ = 1e-5 [KST12]
//	opdisc  σ on halfspaces of 23 integer weights, ‖w‖² ≤ 4, δ = 1e-9 [NRVW20]
//	sgd     z of the published number of steps and batch, 1000 and 100 records of 10
//	        parameters, δ = 1/n² [BFTT19]
func Calibrations(d int, epsilons ...float64) *sweep.Experiment {
	all := map[string]noises{}
	e := &sweep.Experiment{
		Name: "calibrations", Sweep: "eps", Values: epsilons, Params: map[string]any{"d": d},
		Columns: []sweep.Column{column("proved")},
	}
	add := func(name string, f noises) {
		e.Methods = append(e.Methods, name)
		all[name] = f
	}
	add("qop/published", func(eps float64) (float64, float64, error) { return curvature(d, eps, true) })
	add("qop/repaired", func(eps float64) (float64, float64, error) { return curvature(d, eps, false) })
	for _, c := range []struct {
		name        string
		structure   loss.Structure
		calibration qop.Calibration
	}{
		{"qop/closed form", loss.General, qop.Threshold}, {"qop/ours, any loss", loss.General, qop.Sharp},
		{"qop/ours, generalized linear", loss.GLM, qop.Sharp}, {"qop/ours", loss.LSQ, qop.Sharp},
	} {
		add(c.name, func(eps float64) (float64, float64, error) {
			k := loss.Constants{Smoothness: 1, Rank: 1, Structure: c.structure}
			// Share is all but nothing: before the output noise takes its share.
			m := &qop.Mechanism{Calibration: c.calibration, Share: 1e-6, Center: make([]float64, d), Interpolation: qop.Trust{}}
			pl, err := m.Calibrate(erm.Public{Dim: d, Records: 1000, Constants: k, OnSet: k}, dp.Budget{Epsilon: eps, Delta: 0.01})
			if err != nil {
				return 0, 0, err
			}
			return pl.Params().Curvature, eps, nil
		})
	}
	add("lop/published", func(eps float64) (float64, float64, error) {
		return math.Sqrt(8*math.Log(2/1e-5)+4*eps) / eps, 0, nil // with 1 where a record that is replaced changes the gradient by 2
	})
	for _, c := range []struct {
		name        string
		calibration lop.Calibration
	}{{"lop/repaired", lop.Kifer}, {"lop/ours", lop.Sharp}} {
		add(c.name, func(eps float64) (float64, float64, error) {
			m := &lop.Mechanism{Calibration: c.calibration, Ridge: 2 / eps * 1.05} // the output noise has a share of ε
			pl, err := m.Calibrate(declared(10, 1000, 1), dp.Budget{Epsilon: eps, Delta: 1e-5})
			if err != nil {
				return 0, 0, err
			}
			return pl.Params().Sigma, eps, nil
		})
	}
	for _, c := range []struct {
		name string
		law  objpert.Law
	}{{"opdisc/published", objpert.PaperSigma}, {"opdisc/ours", objpert.Gaussian}} {
		add(c.name, func(eps float64) (float64, float64, error) {
			b := dp.Budget{Epsilon: eps, Delta: 1e-9}
			p, err := objpert.Empty(23, objpert.Lattice(4))
			if err != nil {
				return 0, 0, err
			}
			pl, err := (&objpert.OPDisc{Law: c.law}).Plan(p, b)
			if err != nil {
				return 0, 0, err
			}
			return pl.Params().Scale, pl.Certificate().Epsilon, nil
		})
	}
	for _, c := range []struct {
		name string
		n    int
	}{{"sgd", 1000}, {"sgd, n = 100", 100}} {
		q := declared(10, c.n, 0.01)
		budget := func(eps float64) dp.Budget { return dp.Budget{Epsilon: eps, Delta: 1 / float64(c.n*c.n)} }
		add(c.name+"/published", func(eps float64) (float64, float64, error) {
			p := publishedSGD(q, budget(eps))
			proved, err := p.sampler.Epsilon(p.noise, p.steps, budget(eps).Delta)
			return p.noise, max(eps, proved), err
		})
		add(c.name+"/ours", func(eps float64) (float64, float64, error) {
			p := publishedSGD(q, budget(eps))
			z, err := p.sampler.Noise(p.steps, budget(eps))
			return z, eps, err
		})
	}
	e.Prepare = func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
		var proved float64
		return sweep.Task{
			Runs: 1,
			Run: func(context.Context, rand.Source) (x float64, err error) {
				x, proved, err = all[c.Method](c.Value)
				return x, err
			},
			Detail: func() any {
				if proved == 0 {
					return details{}
				}
				return details{"proved": proved}
			},
		}, nil
	}
	return e
}

// published are the numbers of noisy SGD in [BFTT19, Algorithm 1 and Theorem 3.2].
type published struct {
	steps   int
	sampler dp.Sampler
	noise   float64 // z, over L on the sum of a batch
}

// publishedSGD returns the published numbers for losses with L = 1, ε ≤ 1 and δ ≤ 1/n²:
//
//	T = min( n/8, ε²n²/(32 d ln(1/δ)) ),  m = max( n√(ε/(4T)), 1 ),  z = m·√(8T ln(1/δ))/(nε)
//
// The published proof refers to an accountant whose conditions fail for T < 128 ln(1/δ), where the
// noise may be too small by far.
func publishedSGD(q erm.Public, b dp.Budget) published {
	n, log := float64(q.Records), -num.Log(b.Delta)
	en := b.Epsilon * n
	steps := max(1, math.Floor(min(n/8, en*en/(32*float64(q.Dim)*log))))
	batch := max(1, math.Ceil(n*math.Sqrt(b.Epsilon/(4*steps))))
	return published{
		steps: int(steps), sampler: dp.Sampler{Size: int(batch), Records: q.Records, Repeats: true},
		noise: math.Sqrt(8*steps*log) / (n * b.Epsilon) * batch,
	}
}

// declared is what a calibration reads: L = 1, β and a radius of 1.
func declared(d, n int, beta float64) erm.Public {
	k := loss.Constants{Lipschitz: 1, Smoothness: beta, Rank: 1, Structure: loss.GLM}
	return erm.Public{Dim: d, Records: n, Radius: 1, Constants: k, OnSet: k}
}

// curvature is σ²m by the published constants at m = 2d, as printed or repaired.
func curvature(d int, eps float64, asPrinted bool) (noise, proved float64, err error) {
	m := 2 * float64(d)
	c, err := scaling.Published{Dim: d, Degrees: m, Rank: 1, Smoothness: 1, Epsilon1: eps, Delta1: 0.005, Delta3: 0.005}.Constants(asPrinted)
	if err == nil && !asPrinted {
		proved = eps
	}
	return c.Sigma2 * m, proved, err
}
