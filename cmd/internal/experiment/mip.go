package experiment

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/privopt/privopt/objpert"
)

// variable is a variable of the program. Its bounds are 0 and 1 if it is binary.
type lpVariable struct {
	name   string
	cost   float64
	lo, hi float64
	binary bool
}

// term is one summand of a row.
type lpTerm struct {
	col  int
	coef float64
}

// row is Σ terms (=, ≤ or ≥) rhs.
type lpRow struct {
	sense string // =, <= or >=
	terms []lpTerm
	rhs   float64
}

// model is a problem of objpert as a mixed-integer program:
//
//	min  Σ_g |Pos_g − Neg_g| e_g − Σ_j Σ_k T_j[k] r_jk − Σ_q z[q] n_q
//	     Σ_k r_jk = 1,  w_j = Σ_k Values[k] r_jk
//	     Σ_q n_q = 1,   Σ_q q n_q = Σ_j Σ_k Values[k]² r_jk     (≤ Q without a norm table)
//	     ⟨x_g, w⟩ + M_g e_g ≥ 1  if Pos_g > Neg_g,   ⟨x_g, w⟩ − M_g e_g ≤ 0  if Pos_g < Neg_g
//	     r, n, e ∈ {0, 1}
//
// with M_g of bigM, and Σ_g min(Pos_g, Neg_g) left out. Rows are integers: a positive score is at least 1.
type lpModel struct {
	cols    []lpVariable
	rows    []lpRow
	choice  [][]int // column of r_jk, -1 where not allowed
	problem *objpert.Problem
}

func (m *lpModel) add(c lpVariable) int {
	m.cols = append(m.cols, c)
	return len(m.cols) - 1
}

// newModel translates p. Errors are those of p.Check.
func newModel(p *objpert.Problem) (*lpModel, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	m := &lpModel{problem: p, choice: make([][]int, p.Dim)}
	table, norm := reals(p)
	w := make([]int, p.Dim) // columns of w_j
	var squares []lpTerm    // ‖w‖²
	for j := range p.Dim {
		m.choice[j] = slices.Repeat([]int{-1}, len(p.Values))
		var one, sum []lpTerm
		for k, v := range p.Values {
			if p.Allowed != nil && !p.Allowed[j][k] {
				continue
			}
			c := lpVariable{name: fmt.Sprintf("r%d_%d", j, k), binary: true}
			if table != nil {
				c.cost = -table[j][k]
			}
			i := m.add(c)
			m.choice[j][k] = i
			one, sum = append(one, lpTerm{i, 1}), append(sum, lpTerm{i, float64(v)})
			squares = append(squares, lpTerm{i, float64(v * v)})
		}
		lo, hi := float64(p.Values[0]), float64(p.Values[len(p.Values)-1])
		w[j] = m.add(lpVariable{name: fmt.Sprintf("w%d", j), lo: lo, hi: hi})
		m.rows = append(m.rows, lpRow{"=", one, 1}, lpRow{"=", append(sum, lpTerm{w[j], -1}), 0})
	}
	switch {
	case norm != nil:
		var one []lpTerm
		for q, z := range norm {
			i := m.add(lpVariable{name: fmt.Sprintf("n%d", q), cost: -z, binary: true})
			one = append(one, lpTerm{i, 1})
			squares = append(squares, lpTerm{i, -float64(q)})
		}
		m.rows = append(m.rows, lpRow{"=", one, 1}, lpRow{"=", squares, 0})
	case p.NormSq > 0:
		m.rows = append(m.rows, lpRow{"<=", squares, float64(p.NormSq)})
	}
	for g, x := range p.X {
		weight := p.Pos[g] - p.Neg[g]
		if weight == 0 {
			continue
		}
		e := m.add(lpVariable{name: fmt.Sprintf("e%d", g), cost: math.Abs(float64(weight)), binary: true})
		var terms []lpTerm
		for j, v := range x {
			if v != 0 {
				terms = append(terms, lpTerm{w[j], float64(v)})
			}
		}
		big := bigM(p, x)
		if weight > 0 {
			m.rows = append(m.rows, lpRow{">=", append(terms, lpTerm{e, big}), 1})
		} else {
			m.rows = append(m.rows, lpRow{"<=", append(terms, lpTerm{e, -big}), 0})
		}
	}
	return m, nil
}

// bigM is 1 plus a bound on |⟨x, w⟩| over W.
func bigM(p *objpert.Problem, x []int64) float64 {
	most := math.Max(math.Abs(float64(p.Values[0])), math.Abs(float64(p.Values[len(p.Values)-1])))
	sum, sq := 0.0, 0.0
	for _, v := range x {
		sum += math.Abs(float64(v))
		sq += float64(v) * float64(v)
	}
	bound := sum * most
	if p.NormSq > 0 {
		bound = math.Min(bound, math.Sqrt(sq*float64(p.NormSq)))
	}
	return 1 + math.Ceil(bound)
}

// writeLP writes p in the LP format of CPLEX. The file holds the records and the noise of p.
func writeLP(w io.Writer, p *objpert.Problem) error {
	m, err := newModel(p)
	if err != nil {
		return err
	}
	return m.writeLP(w)
}

func lpNumber(v float64) string { return strconv.FormatFloat(v, 'g', 17, 64) }

func (m *lpModel) writeLP(dst io.Writer) error {
	w := bufio.NewWriter(dst)
	sum := func(terms []lpTerm) {
		for i, t := range terms {
			if i > 0 && i%6 == 0 {
				fmt.Fprint(w, "\n ") // readers limit the length of a line
			}
			sign := "+"
			if t.coef < 0 {
				sign = "-"
			}
			fmt.Fprintf(w, " %s %s %s", sign, lpNumber(math.Abs(t.coef)), m.cols[t.col].name)
		}
	}
	cost := make([]lpTerm, len(m.cols)) // all of them: GLPK numbers columns as they appear
	for i, c := range m.cols {
		cost[i] = lpTerm{i, c.cost}
	}
	fmt.Fprint(w, "Minimize\n obj:")
	sum(cost)
	fmt.Fprint(w, "\nSubject To\n")
	for i, r := range m.rows {
		fmt.Fprintf(w, " c%d:", i)
		sum(r.terms)
		fmt.Fprintf(w, " %s %s\n", r.sense, lpNumber(r.rhs))
	}
	fmt.Fprint(w, "Bounds\n")
	for _, c := range m.cols {
		if !c.binary {
			fmt.Fprintf(w, " %s <= %s <= %s\n", lpNumber(c.lo), c.name, lpNumber(c.hi))
		}
	}
	fmt.Fprint(w, "Binary\n")
	for _, c := range m.cols {
		if c.binary {
			fmt.Fprintf(w, " %s\n", c.name)
		}
	}
	fmt.Fprint(w, "End\n")
	return w.Flush()
}

// point returns the w that values of the columns stand for: the largest r_jk of
// each coordinate. ok is false if it is not a point of W.
func (m *lpModel) point(value []float64) (w []int, ok bool) {
	w = make([]int, m.problem.Dim)
	for j, choice := range m.choice {
		best := math.Inf(-1)
		for k, i := range choice {
			if i >= 0 && value[i] > best {
				w[j], best = m.problem.Values[k], value[i]
			}
		}
	}
	return w, m.problem.Contains(w)
}

// reals returns the noise of p as float64.
func reals(p *objpert.Problem) (table [][]float64, norm []float64) {
	steps, z, exponent := p.Noise()
	row := func(src []int64) []float64 {
		dst := make([]float64, len(src))
		for k, v := range src {
			dst[k] = math.Ldexp(float64(v), exponent)
		}
		return dst
	}
	for _, r := range steps {
		table = append(table, row(r))
	}
	if z != nil {
		norm = row(z)
	}
	return table, norm
}
