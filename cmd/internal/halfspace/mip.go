package halfspace

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
type variable struct {
	name   string
	cost   float64
	lo, hi float64
	binary bool
}

// term is one summand of a row.
type term struct {
	col  int
	coef float64
}

// row is Σ terms (=, ≤ or ≥) rhs.
type row struct {
	sense string // =, <= or >=
	terms []term
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
type model struct {
	cols    []variable
	rows    []row
	choice  [][]int // column of r_jk, -1 where not allowed
	problem *objpert.Problem
	values  []int // of a coordinate
}

func (m *model) add(c variable) int {
	m.cols = append(m.cols, c)
	return len(m.cols) - 1
}

// newModel translates p. The error wraps objpert.ErrProblem if p is nil.
func newModel(p *objpert.Problem) (*model, error) {
	d := p.Dim()
	if d == 0 {
		return nil, fmt.Errorf("%w: the problem is nil", objpert.ErrProblem)
	}
	space := p.Space()
	m := &model{problem: p, values: space.Values, choice: make([][]int, d)}
	table, norm := reals(p)
	w := make([]int, d) // columns of w_j
	var squares []term  // ‖w‖²
	for j := range d {
		m.choice[j] = slices.Repeat([]int{-1}, len(space.Values))
		var one, sum []term
		for k, v := range space.Values {
			if space.Allowed != nil && !space.Allowed[j][k] {
				continue
			}
			c := variable{name: fmt.Sprintf("r%d_%d", j, k), binary: true}
			if table != nil {
				c.cost = -table[j][k]
			}
			i := m.add(c)
			m.choice[j][k] = i
			one, sum = append(one, term{i, 1}), append(sum, term{i, float64(v)})
			squares = append(squares, term{i, float64(v * v)})
		}
		lo, hi := float64(space.Values[0]), float64(space.Values[len(space.Values)-1])
		w[j] = m.add(variable{name: fmt.Sprintf("w%d", j), lo: lo, hi: hi})
		m.rows = append(m.rows, row{"=", one, 1}, row{"=", append(sum, term{w[j], -1}), 0})
	}
	switch {
	case norm != nil:
		var one []term
		for q, z := range norm {
			i := m.add(variable{name: fmt.Sprintf("n%d", q), cost: -z, binary: true})
			one = append(one, term{i, 1})
			squares = append(squares, term{i, -float64(q)})
		}
		m.rows = append(m.rows, row{"=", one, 1}, row{"=", squares, 0})
	case space.NormSq > 0:
		m.rows = append(m.rows, row{"<=", squares, float64(space.NormSq)})
	}
	rows, pos, neg := p.Rows()
	for g, x := range rows {
		weight := pos[g] - neg[g]
		if weight == 0 {
			continue
		}
		e := m.add(variable{name: fmt.Sprintf("e%d", g), cost: math.Abs(float64(weight)), binary: true})
		var terms []term
		for j, v := range x {
			if v != 0 {
				terms = append(terms, term{w[j], float64(v)})
			}
		}
		big := bigM(&space, x)
		if weight > 0 {
			m.rows = append(m.rows, row{">=", append(terms, term{e, big}), 1})
		} else {
			m.rows = append(m.rows, row{"<=", append(terms, term{e, -big}), 0})
		}
	}
	return m, nil
}

// bigM is 1 plus a bound on |⟨x, w⟩| over W.
func bigM(s *objpert.Space, x []int64) float64 {
	most := math.Max(math.Abs(float64(s.Values[0])), math.Abs(float64(s.Values[len(s.Values)-1])))
	sum, sq := 0.0, 0.0
	for _, v := range x {
		sum += math.Abs(float64(v))
		sq += float64(v) * float64(v)
	}
	bound := sum * most
	if s.NormSq > 0 {
		bound = math.Min(bound, math.Sqrt(sq*float64(s.NormSq)))
	}
	return 1 + math.Ceil(bound)
}

// WriteLP writes p in the LP format of CPLEX. The file holds the records and the noise of p.
func WriteLP(w io.Writer, p *objpert.Problem) error {
	m, err := newModel(p)
	if err != nil {
		return err
	}
	return m.writeLP(w)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 17, 64) }

func (m *model) writeLP(dst io.Writer) error {
	w := bufio.NewWriter(dst)
	sum := func(terms []term) {
		for i, t := range terms {
			if i > 0 && i%6 == 0 {
				fmt.Fprint(w, "\n ") // readers limit the length of a line
			}
			sign := "+"
			if t.coef < 0 {
				sign = "-"
			}
			fmt.Fprintf(w, " %s %s %s", sign, number(math.Abs(t.coef)), m.cols[t.col].name)
		}
	}
	cost := make([]term, len(m.cols)) // all of them: GLPK numbers columns as they appear
	for i, c := range m.cols {
		cost[i] = term{i, c.cost}
	}
	fmt.Fprint(w, "Minimize\n obj:")
	sum(cost)
	fmt.Fprint(w, "\nSubject To\n")
	for i, r := range m.rows {
		fmt.Fprintf(w, " c%d:", i)
		sum(r.terms)
		fmt.Fprintf(w, " %s %s\n", r.sense, number(r.rhs))
	}
	fmt.Fprint(w, "Bounds\n")
	for _, c := range m.cols {
		if !c.binary {
			fmt.Fprintf(w, " %s <= %s <= %s\n", number(c.lo), c.name, number(c.hi))
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
func (m *model) point(value []float64) (w []int, ok bool) {
	w = make([]int, len(m.choice))
	for j, choice := range m.choice {
		best := math.Inf(-1)
		for k, i := range choice {
			if i >= 0 && value[i] > best {
				w[j], best = m.values[k], value[i]
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
