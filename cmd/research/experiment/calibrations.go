// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"math"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/lasso"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/objpert"
	"github.com/privopt/privopt/qop"
	"github.com/privopt/privopt/sco"
)

// Calibrations is published, repaired and own noise against ε ≤ 1. Neighbors are replaced records,
// losses have L = β = 1, the column proved is the ε that is proved for the noise.
//
//	qop     mean curvature σ²m added per direction, d parameters, δ = 0.01 [CC26]
//	lop     σ of the linear term at the published ridge 2β/ε, δ = 1e-5 [KST12]
//	opdisc  σ on halfspaces of 23 integer weights, ‖w‖² ≤ 4, δ = 1e-9 [NRVW20]
//	sgd     z of the published number of steps and batch, 1000 and 100 records of 10
//	        parameters, δ = 1/n² [BFTT19]
func Calibrations(d int, epsilons ...float64) *sweep.Experiment {
	all := map[string]calibration{
		"qop/published": curvature(d, true),
		"qop/repaired":  curvature(d, false),
		"lop/published": func(eps float64) (noise, proved float64, err error) {
			// It has 1 in the place of 2, by which a record that is replaced changes the gradient.
			return math.Sqrt(8*math.Log(2/1e-5)+4*eps) / eps, 0, nil
		},
		"lop/repaired":                 linear(lop.Kifer),
		"lop/ours":                     linear(lop.Sharp),
		"opdisc/published":             discrete(objpert.PaperSigma),
		"opdisc/ours":                  discrete(objpert.Gaussian),
		"qop/ours, any loss":           quadratic(d, loss.General),
		"qop/ours, generalized linear": quadratic(d, loss.GLM),
		"qop/ours":                     quadratic(d, loss.LSQ),
		"sgd/published":                gradients(1000, true),
		"sgd/ours":                     gradients(1000, false),
		"sgd, n = 100/published":       gradients(100, true),
		"sgd, n = 100/ours":            gradients(100, false),
	}
	return &sweep.Experiment{
		Name: "calibrations", Sweep: "eps", Values: epsilons, Params: map[string]any{"d": d},
		Columns: []sweep.Column{column("proved")},
		Methods: []string{"qop/published", "qop/repaired", "qop/ours, any loss",
			"qop/ours, generalized linear", "qop/ours", "lop/published", "lop/repaired", "lop/ours", "opdisc/published",
			"opdisc/ours", "sgd/published", "sgd/ours", "sgd, n = 100/published", "sgd, n = 100/ours"},
		Prepare: func(_ context.Context, c sweep.Cell) (sweep.Task, error) {
			shown := details{}
			task := sweep.Once(func(context.Context) (float64, error) {
				noise, proved, err := all[c.Method](c.Value)
				if proved > 0 {
					shown["proved"] = proved
				}
				return noise, err
			})
			task.Detail = func() any { return shown }
			return task, nil
		},
	}
}

// calibration returns the noise of a method at ε and the ε that is proved for it, 0 if none is.
type calibration func(epsilon float64) (noise, proved float64, err error)

// curvature is σ²m by the published constants at m = 2d, as printed or repaired.
func curvature(d int, asPrinted bool) calibration {
	return func(eps float64) (noise, proved float64, err error) {
		p := lasso.Published{Dim: d, Degrees: 2 * float64(d), Rank: 1, Smoothness: 1, Epsilon1: eps, Delta1: 0.005,
			Delta3: 0.005}
		c, err := p.Constants(asPrinted)
		if err == nil && !asPrinted {
			proved = eps
		}
		return c.Sigma2 * p.Degrees, proved, err
	}
}

func quadratic(d int, structure loss.Structure) calibration {
	return func(eps float64) (noise, proved float64, err error) {
		k := loss.Constants{Smoothness: 1, Rank: 1, Structure: structure}
		// Share is all but nothing: before the output noise takes its share.
		m := &qop.Mechanism{Share: 1e-6, Center: make([]float64, d), Interpolation: qop.Trust{}}
		q := erm.Public{Dim: d, Records: 1000, Constants: k, OnSet: k}
		pl, err := m.Calibrate(q, dp.Budget{Epsilon: eps, Delta: 0.01})
		if err != nil {
			return 0, 0, err
		}
		return pl.Params().Curvature, eps, nil
	}
}

func linear(constants lop.Calibration) calibration {
	return func(eps float64) (noise, proved float64, err error) {
		m := &lop.Mechanism{Calibration: constants, Ridge: 2 / eps * 1.05} // the output noise has a share of ε
		pl, err := m.Calibrate(declared(10, 1000, 1), dp.Budget{Epsilon: eps, Delta: 1e-5})
		if err != nil {
			return 0, 0, err
		}
		return pl.Params().Sigma, eps, nil
	}
}

func discrete(law objpert.Law) calibration {
	return func(eps float64) (noise, proved float64, err error) {
		p, err := objpert.Empty(23, objpert.Lattice(4))
		if err != nil {
			return 0, 0, err
		}
		pl, err := (&objpert.OPDisc{Law: law}).Plan(p, dp.Budget{Epsilon: eps, Delta: 1e-9})
		if err != nil {
			return 0, 0, err
		}
		return pl.Params().Scale, pl.Certificate().Epsilon, nil
	}
}

// gradients is z of the published procedure over n records, or the least z for its steps and batch.
func gradients(n int, published bool) calibration {
	return func(eps float64) (noise, proved float64, err error) {
		b := dp.Budget{Epsilon: eps, Delta: 1 / float64(n*n)}
		p, err := sco.PublishedSGD(n, 10, b)
		if err != nil {
			return 0, 0, err
		}
		if !published {
			z, err := p.Sampler.Noise(p.Steps, b)
			return z, eps, err
		}
		proved, err = p.Sampler.Epsilon(p.Noise, p.Steps, b.Delta)
		return p.Noise, max(eps, proved), err
	}
}

// declared is the input of a calibration: L = 1, β and a radius of 1.
func declared(d, n int, beta float64) erm.Public {
	k := loss.Constants{Lipschitz: 1, Smoothness: beta, Rank: 1, Structure: loss.GLM}
	return erm.Public{Dim: d, Records: n, Radius: 1, Constants: k, OnSet: k}
}
