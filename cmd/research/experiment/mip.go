// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/privopt/privopt/objpert"
)

// lpTerm is one summand of a row.
type lpTerm struct {
	name string // of a variable
	coef float64
}

// lpModel is a problem of objpert as a mixed-integer program, written in the LP format of CPLEX:
//
//	min  Σ_g |Pos_g − Neg_g| e_g − Σ_j Σ_k T_j[k] r_jk − Σ_q z[q] n_q
//	     Σ_k r_jk = 1,  w_j = Σ_k Values[k] r_jk
//	     Σ_q n_q = 1,   Σ_q q n_q = Σ_j Σ_k Values[k]² r_jk     (≤ Q without a norm table)
//	     ⟨x_g, w⟩ + M_g e_g ≥ 1  if Pos_g > Neg_g,   ⟨x_g, w⟩ − M_g e_g ≤ 0  if Pos_g < Neg_g
//	     r, n, e ∈ {0, 1}
//
// with M_g of bigM, and Σ_g min(Pos_g, Neg_g) left out. Rows are integers: a positive score is at
// least 1.
type lpModel struct {
	problem              *objpert.Problem
	values               []int      // of a coordinate
	choice               [][]string // the name of r_jk, "" where not allowed
	cost                 []lpTerm   // of all variables, also those that cost nothing
	rows, bounds, binary strings.Builder
	count                int // of rows
}

// choose adds a variable that is 0 or 1.
func (m *lpModel) choose(cost float64, format string, index ...any) (name string) {
	name = fmt.Sprintf(format, index...)
	m.cost = append(m.cost, lpTerm{name, cost})
	fmt.Fprintf(&m.binary, " %s\n", name)
	return name
}

// require adds the row Σ terms (=, <= or >=) rhs.
func (m *lpModel) require(terms []lpTerm, sense string, rhs float64) {
	fmt.Fprintf(&m.rows, " c%d:%s %s %s\n", m.count, lpSum(terms), sense, lpNumber(rhs))
	m.count++
}

// newModel translates p.
func newModel(p *objpert.Problem) *lpModel {
	d := p.Dim()
	space := p.Space()
	m := &lpModel{problem: p, values: space.Values, choice: make([][]string, d)}
	table, norm := reals(p)
	w := make([]string, d) // names of w_j
	var squares []lpTerm   // ‖w‖²
	for j := range d {
		m.choice[j] = make([]string, len(space.Values))
		var one, sum []lpTerm
		for k, v := range space.Values {
			if space.Allowed != nil && !space.Allowed[j][k] {
				continue
			}
			cost := 0.0
			if table != nil {
				cost = -table[j][k]
			}
			r := m.choose(cost, "r%d_%d", j, k)
			m.choice[j][k] = r
			one, sum = append(one, lpTerm{r, 1}), append(sum, lpTerm{r, float64(v)})
			squares = append(squares, lpTerm{r, float64(v * v)})
		}
		w[j] = fmt.Sprintf("w%d", j)
		m.cost = append(m.cost, lpTerm{w[j], 0})
		fmt.Fprintf(&m.bounds, " %d <= %s <= %d\n", space.Values[0], w[j], space.Values[len(space.Values)-1])
		m.require(one, "=", 1)
		m.require(append(sum, lpTerm{w[j], -1}), "=", 0)
	}
	switch {
	case norm != nil:
		var one []lpTerm
		for q, z := range norm {
			n := m.choose(-z, "n%d", q)
			one, squares = append(one, lpTerm{n, 1}), append(squares, lpTerm{n, -float64(q)})
		}
		m.require(one, "=", 1)
		m.require(squares, "=", 0)
	case space.NormSq > 0:
		m.require(squares, "<=", float64(space.NormSq))
	}
	rows, pos, neg := p.Rows()
	for g, x := range rows {
		weight := pos[g] - neg[g]
		if weight == 0 {
			continue
		}
		e := m.choose(math.Abs(float64(weight)), "e%d", g)
		var terms []lpTerm
		for j, v := range x {
			if v != 0 {
				terms = append(terms, lpTerm{w[j], float64(v)})
			}
		}
		if big := bigM(&space, x); weight > 0 {
			m.require(append(terms, lpTerm{e, big}), ">=", 1)
		} else {
			m.require(append(terms, lpTerm{e, -big}), "<=", 0)
		}
	}
	return m
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

func lpNumber(v float64) string { return strconv.FormatFloat(v, 'g', 17, 64) }

// lpSum writes a sum. Readers limit the length of a line.
func lpSum(terms []lpTerm) (text string) {
	for i, t := range terms {
		if i > 0 && i%6 == 0 {
			text += "\n "
		}
		sign := "+"
		if t.coef < 0 {
			sign = "-"
		}
		text += fmt.Sprintf(" %s %s %s", sign, lpNumber(math.Abs(t.coef)), t.name)
	}
	return text
}

// lp returns the text of m.
func (m *lpModel) lp() string {
	return "Minimize\n obj:" + lpSum(m.cost) + "\nSubject To\n" + m.rows.String() + "Bounds\n" + m.bounds.String() +
		"Binary\n" + m.binary.String() + "End\n"
}

// point returns the w that values of the variables stand for: the largest r_jk of each coordinate.
// ok is false if it is not a point of W.
func (m *lpModel) point(value map[string]float64) (w []int, ok bool) {
	w = make([]int, len(m.choice))
	for j, choice := range m.choice {
		best := math.Inf(-1)
		for k, r := range choice {
			if r != "" && value[r] > best {
				w[j], best = m.values[k], value[r]
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

// errNoPoint reports that CBC found no point.
var errNoPoint = errors.New("the solver found no point")

// answer is what a solution file says.
type answer struct {
	status string             // its own words
	value  map[string]float64 // of the variables; nil if there is no solution
}

// cbc lets CBC solve m within a limit. It is killed 2 seconds later. The records are public.
func (m *lpModel) cbc(ctx context.Context, limit time.Duration) (a answer, err error) {
	dir, err := os.MkdirTemp("", "privopt-mip-")
	if err != nil {
		return a, err
	}
	defer os.RemoveAll(dir)
	model, solution := filepath.Join(dir, "model.lp"), filepath.Join(dir, "solution.sol")
	if err := os.WriteFile(model, []byte(m.lp()), 0o600); err != nil {
		return a, err
	}
	deadline, cancel := context.WithTimeout(ctx, limit+2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(deadline, "cbc", model, "-timeMode", "elapsed", "-seconds",
		strconv.Itoa(int(math.Ceil(limit.Seconds()))), "-ratioGap", "0", "-solve", "-solution", solution)
	cmd.WaitDelay = 2 * time.Second // for children that keep a pipe open
	err = cmd.Run()
	var exit *exec.ExitError
	if ctx.Err() != nil {
		return a, ctx.Err()
	} else if err != nil && !errors.As(err, &exit) && deadline.Err() == nil {
		return a, fmt.Errorf("cbc did not start: %w", err)
	}
	text, err := os.ReadFile(solution) // also of a solver that failed after it wrote a point
	if err != nil {
		return a, fmt.Errorf("%w: it wrote no solution", errNoPoint)
	}
	return m.parse(string(text)), nil
}

// parse reads the solution file of CBC: the status, then lines that hold the name of a variable
// followed by its value. Those that are not named are 0.
func (m *lpModel) parse(text string) (a answer) {
	known := map[string]bool{}
	for _, t := range m.cost {
		known[t.name] = true
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		at := slices.IndexFunc(fields, func(f string) bool { return known[f] })
		if at >= 0 && at+1 < len(fields) {
			if v, err := strconv.ParseFloat(fields[at+1], 64); err == nil && !math.IsNaN(v) {
				if a.value == nil {
					a.value = map[string]float64{}
				}
				a.value[fields[at]] = v
			}
		}
		if a.value == nil && a.status == "" {
			a.status = strings.TrimSpace(line)
		}
	}
	if strings.Contains(strings.ToLower(a.status), "infeasible") {
		a.value = nil
	}
	return a
}

// race lets CBC and the search of this module minimize one problem. Its answer is that of CBC, an
// incumbent and never a proof: solvers work in float64 with tolerances, and have reported points
// that were not optimal as optimal. Loss and objective are recomputed in integers, Solution.Proven
// is always false, and the mechanisms of objpert withhold.
type race struct {
	limit time.Duration // of each
	lap   Lap
	found *objpert.Solution // by CBC; nil if there is none
}

var _ objpert.Oracle = (*race)(nil)

// Lap is one problem of a race.
type Lap struct {
	Status        string  `json:"status"`           // the words of the command
	Seconds       float64 `json:"seconds"`          // of the command
	Search        float64 `json:"search"`           // seconds of the search
	Excess        float64 `json:"excess,omitempty"` // of the command's point over the proven minimum
	Open          bool    `json:"open,omitempty"`   // the limit ended the search, so that the minimum is not known
	NoPoint       bool    `json:"no_point,omitempty"`
	ClaimsOptimum bool    `json:"claims_optimum,omitempty"`
}

// Solve implements objpert.Oracle. The error wraps errNoPoint where CBC finds no point of the
// space.
func (r *race) Solve(ctx context.Context, p *objpert.Problem) (*objpert.Solution, error) {
	r.lap, r.found = Lap{}, nil
	m, start := newModel(p), time.Now()
	a, err := m.cbc(ctx, r.limit)
	r.lap.Status, r.lap.Seconds = a.status, time.Since(start).Seconds()
	r.lap.ClaimsOptimum = strings.HasPrefix(strings.ToLower(a.status), "optimal")
	if err != nil && !errors.Is(err, errNoPoint) {
		return nil, err
	}
	start = time.Now()
	bounded, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	best, e := objpert.Search{Workers: 1}.Solve(bounded, p)
	r.lap.Search = time.Since(start).Seconds()
	if r.lap.Open = e != nil; e != nil && (ctx.Err() != nil || !errors.Is(e, objpert.ErrInterrupted)) {
		return nil, e
	}
	w, ok := []int(nil), false
	if a.value != nil {
		w, ok = m.point(a.value)
	}
	if r.lap.NoPoint = !ok; !ok {
		return nil, errNoPoint
	}
	r.found = &objpert.Solution{W: w, Loss: p.Loss(w), Objective: p.Objective(w), Lower: math.Inf(-1)}
	if !r.lap.Open {
		r.lap.Excess = r.found.Objective - best.Objective
	}
	return r.found, nil
}
