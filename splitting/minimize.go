package splitting

import "context"

// Minimize solves p by the method that [Auto] picks, exactly as [Solve] would.
//
//	first that applies                                        picks
//	K is not nil                                              PrimalDual
//	F a LeastSquares, G+H coordinatewise (ℓ1, ℓ2², box)       CoordinateDescent, on residuals
//	F quadratic, G+H coordinatewise                           CoordinateDescent, on Q
//	F with a Hessian, G+H coordinatewise or a ball, d ≤ 2000  ProxNewton
//	G+H nothing or a squared norm, d > 2000                   LBFGS
//	prox of G+H known in closed form                          ForwardBackward
//	otherwise                                                 DavisYin
//
// CoordinateDescent and ProxNewton end with the accuracy of a direct solver in tens of steps,
// whatever the conditioning, and need at most 1.5 d² numbers of memory. ForwardBackward needs about
// √(L_f/μ) gradients a digit. DavisYin is for pairs such as a group norm and a simplex.
// BenchmarkAuto compares the pick of every row with the methods below it.
func Minimize(ctx context.Context, p Problem, x0 []float64, s *Settings) (*Result, error) {
	if err := p.check(x0); err != nil { // Auto asks F for its Hessian
		return nil, err
	}
	return Solve(ctx, p, x0, s, Auto(p, len(x0)))
}

// newtonDim is the dimension above which ProxNewton is not picked: a step takes d² numbers and d³
// operations.
const newtonDim = 2000

// Auto returns a new method for p in dim dimensions, by the table of [Minimize].
func Auto(p Problem, dim int) Method {
	if p.K != nil {
		return &PrimalDual{}
	}
	_, separable := p.coordinatewise()
	if _, ok := p.F.(*LeastSquares); ok && separable {
		return &CoordinateDescent{}
	}
	if separable {
		if _, _, ok := quadratic(p.F, dim); ok {
			return &CoordinateDescent{}
		}
	}
	_, ball := p.ball()
	if _, ok := hessian(p.F); ok && (separable || ball) && dim <= newtonDim {
		return &ProxNewton{}
	}
	if _, ok := p.bends(); ok && dim > newtonDim {
		return &LBFGS{}
	}
	if _, ok := p.sum(); ok {
		return &ForwardBackward{}
	}
	return &DavisYin{}
}
