package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/sco"
)

// names are the private methods.
var stochastic = []string{"sgd", "prox", "dpsgd", "objpert", "svrg", "output", "psgd", "phased"}

// bounded are the methods with a proved bound.
var bounded = map[string]bool{"sgd": true, "prox": true, "objpert": true, "svrg": true, "output": true, "psgd": true, "phased": true,
	"onepass": true}

// boundSuffix marks the columns that hold bounds.
const boundSuffix = "-bound"

// detail is what a cell keeps besides its mean.
type populationDetail struct {
	Certificate *dp.Certificate `json:"certificate,omitempty"`
	Outcomes    []float64       `json:"outcomes,omitempty"`    // of the runs
	Evaluations []float64       `json:"evaluations,omitempty"` // gradients of single records
	Steps       int             `json:"steps,omitempty"`
	Plan        string          `json:"plan,omitempty"`
	Seconds     []float64       `json:"seconds,omitempty"` // of each fit
}

// planned is a calibrated method.
type plannedMethod struct {
	bound float64 // on the expected excess; +Inf: none
	text  string
	fit   func(ctx context.Context, p *erm.Problem, src rand.Source) (*dp.Release, error)
}

// setting is what methods share; zero fields mean their defaults.
type settings struct {
	rel    dp.Relation
	radius float64         // of methods that know it from no set
	trace  func(erm.Trace) // called after every fit
}

// calibrate plans a private method by public quantities alone.
func calibrate(method string, p *erm.Problem, b dp.Budget, s settings) (plannedMethod, error) {
	sgd := func(q *sco.SGDPlan, err error) (plannedMethod, error) {
		if err != nil {
			return plannedMethod{}, err
		}
		par := q.Params()
		text := fmt.Sprintf("T = %d, qn = %.4g, z = %.4g, step = %.3g", par.Steps, par.Batch, par.Noise, par.StepSize)
		return plannedMethod{par.ExcessBound, text, q.Fit}, nil
	}
	obj := func(q *lop.Plan, err error) (plannedMethod, error) {
		if err != nil {
			return plannedMethod{}, err
		}
		par := q.Params()
		text := fmt.Sprintf("ridge = %.4g, sigma = %.4g, output sigma = %.4g", par.Ridge, par.Sigma, par.OutputSigma)
		return plannedMethod{par.ExcessBound, text, q.Fit}, nil
	}
	pass := func(q *sco.PassPlan, err error) (plannedMethod, error) {
		if err != nil {
			return plannedMethod{}, err
		}
		return plannedMethod{q.Params().ExcessBound, "", q.Fit}, nil
	}
	objective := sco.ObjPert{Relation: s.rel, Radius: s.radius, Trace: s.trace}
	noisy := sco.NoisySGD{Relation: s.rel, Trace: s.trace}
	switch method {
	case "lop":
		return obj((&lop.Mechanism{Relation: s.rel, Radius: s.radius, Trace: s.trace}).Plan(p, b))
	case "objpert":
		return obj(objective.Plan(p, b))
	case "svrg":
		return obj((&sco.ObjPertSVRG{ObjPert: objective}).Plan(p, b))
	case "output":
		return obj((&sco.Output{Relation: s.rel, Radius: s.radius, Trace: s.trace}).Plan(p, b))
	case "psgd":
		return pass((&sco.PermutationSGD{Trace: s.trace}).Plan(p, b))
	case "phased":
		return pass((&sco.Phased{Trace: s.trace}).Plan(p, b))
	case "sgd":
		return sgd(noisy.Plan(p, b))
	case "prox":
		return sgd((&sco.ProxGD{NoisySGD: noisy}).Plan(p, b))
	case "dpsgd":
		return sgd((&sco.DPSGD{Relation: s.rel, Trace: s.trace}).Plan(p, b))
	}
	return plannedMethod{}, fmt.Errorf("no method %q", method)
}

// prepare calibrates one cell for the sizes of its value.
func (c *populationConfig) prepare(_ context.Context, cell sweep.Cell) (sweep.Task, error) {
	at := c.at(cell.Value)
	pop := at.population()
	b := dp.Budget{Epsilon: at.Epsilon, Delta: at.Delta}
	method, isBound := strings.CutSuffix(cell.Method, boundSuffix)

	var pl plannedMethod
	det := &populationDetail{}
	if slices.Contains(stochastic, method) {
		// A calibration reads no record: zeros stand for them.
		zeros := pop
		zeros.draw = func([]float64, *rand.Rand) float64 { return 0 }
		shape, err := zeros.problem(at.N, at.D, nil)
		if err == nil {
			count := func(t erm.Trace) { det.Evaluations = append(det.Evaluations, float64(t.GradTerms)) }
			pl, err = calibrate(method, shape, b, settings{trace: count})
		}
		if err != nil {
			return sweep.Task{}, err
		}
		det.Plan = pl.text
	}
	if method == "onepass" { // M²/(2ηn) + ηL²/2 at η = M/(L√n)
		pl.bound = pop.radius * pop.loss.Constants(pop.bounds, pop.radius).Lipschitz / math.Sqrt(float64(at.N))
	}
	if isBound {
		return sweep.Task{Runs: 1, Run: func(context.Context, rand.Source) (float64, error) {
			return min(pl.bound, math.MaxFloat64), nil
		}}, nil
	}
	run := func(ctx context.Context, src rand.Source) ([]float64, error) {
		records := rand.New(src) // the law of the records is no secret
		if c.Seed == nil {
			src = nil
		} else {
			src = noise.Reproducible(records.Uint64(), "population", "noise")
		}
		if method == "zero" {
			return make([]float64, at.D), nil
		}
		p, err := pop.problem(at.N, at.D, records)
		if err != nil {
			return nil, err
		}
		if method == "onepass" {
			det.Evaluations = append(det.Evaluations, float64(at.N))
			return onepass(p, pop.radius, records), nil
		}
		rel, err := pl.fit(ctx, p, src)
		if err != nil {
			return nil, err
		}
		det.Certificate = &rel.Certificate
		return rel.Theta, nil
	}
	return sweep.Task{
		Runs: at.Runs,
		Run: func(ctx context.Context, src rand.Source) (float64, error) {
			w, err := run(ctx, src)
			if err != nil {
				return 0, err
			}
			excess := pop.excess(w)
			det.Outcomes = append(det.Outcomes, excess)
			return excess, nil
		},
		Detail: func() any { return det },
	}, nil
}

// onepass is averaged projected SGD with one gradient a record, in random order,
// η = M/(L√n): no privacy, excess at most ML/√n.
func onepass(p *erm.Problem, radius float64, src *rand.Rand) []float64 {
	n, d := p.Data.Dims()
	l := p.Loss.Constants(p.Data.Bounds(), radius).Lipschitz
	eta := radius / (l * math.Sqrt(float64(n)))
	w, g, mean := make([]float64, d), make([]float64, d), make([]float64, d)
	for _, i := range src.Perm(n) {
		floats.Add(mean, w)
		p.Loss.Grad(g, w, p.Data.Row(i), p.Data.Label(i))
		floats.AddScaled(w, -eta, g)
		p.Set.Prox(w, w, 1)
	}
	floats.Scale(1/float64(n), mean)
	return mean
}
