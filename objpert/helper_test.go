package objpert

import "math"

// perturbReal is Perturb for a real table and norm, rounded as tilts are.
func (p *Problem) perturbReal(table [][]float64, norm []float64) (*Problem, error) {
	if p == nil {
		return p.Perturb(nil, nil, 0)
	}
	q, _, err := p.tilted(table, norm)
	return q, err
}

// real returns the noise of p as float64, 0 where there is none.
func (p *Problem) real() (table [][]float64, norm []float64) {
	n := p.perturbation()
	row := func(src []fixed) []float64 {
		dst := make([]float64, len(src))
		for k, v := range src {
			dst[k] = math.Ldexp(float64(v), -n.shift)
		}
		return dst
	}
	for _, r := range n.table {
		table = append(table, row(r))
	}
	if n.norm != nil {
		norm = row(n.norm)
	}
	return table, norm
}
