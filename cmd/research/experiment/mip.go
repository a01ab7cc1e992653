// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

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
// with M_g of bigM, and Σ_g min(Pos_g, Neg_g) left out. Rows are integers: a positive score is at
// least 1.
type lpModel struct {
	cols    []lpVariable
	rows    []lpRow
	choice  [][]int // column of r_jk, -1 where not allowed
	problem *objpert.Problem
	values  []int // of a coordinate
}

func (m *lpModel) add(c lpVariable) int {
	m.cols = append(m.cols, c)
	return len(m.cols) - 1
}

// newModel translates p. The error wraps objpert.ErrProblem if p is nil.
func newModel(p *objpert.Problem) (*lpModel, error) {
	d := p.Dim()
	if d == 0 {
		return nil, fmt.Errorf("%w: the problem is nil", objpert.ErrProblem)
	}
	space := p.Space()
	m := &lpModel{problem: p, values: space.Values, choice: make([][]int, d)}
	table, norm := reals(p)
	w := make([]int, d)  // columns of w_j
	var squares []lpTerm // ‖w‖²
	for j := range d {
		m.choice[j] = slices.Repeat([]int{-1}, len(space.Values))
		var one, sum []lpTerm
		for k, v := range space.Values {
			if space.Allowed != nil && !space.Allowed[j][k] {
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
		lo, hi := float64(space.Values[0]), float64(space.Values[len(space.Values)-1])
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
	case space.NormSq > 0:
		m.rows = append(m.rows, lpRow{"<=", squares, float64(space.NormSq)})
	}
	rows, pos, neg := p.Rows()
	for g, x := range rows {
		weight := pos[g] - neg[g]
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
		big := bigM(&space, x)
		if weight > 0 {
			m.rows = append(m.rows, lpRow{">=", append(terms, lpTerm{e, big}), 1})
		} else {
			m.rows = append(m.rows, lpRow{"<=", append(terms, lpTerm{e, -big}), 0})
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

func lpNumber(v float64) string { return strconv.FormatFloat(v, 'g', 17, 64) }

// writeLP writes m in the LP format of CPLEX. The file holds the records and the noise of the
// problem.
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
	cost := make([]lpTerm, len(m.cols)) // all of them, also those that cost nothing
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

// Errors of a mipSolver. Test with errors.Is.
var (
	errCommand = errors.New("no such solver") // unknown, absent or failed to run
	errNoPoint = errors.New("the solver found no point")
)

// mipSolver hands problems to a solver of mixed-integer programs that is installed as a command.
//
// Its answers are incumbents and never proofs: solvers work in float64 with tolerances, and have
// reported points that were not optimal as optimal. Loss and objective are recomputed in integers,
// Solution.Proven is always false, and the mechanisms of objpert withhold.
//
// The model holds the records and the noise. It lies in a new folder of mode 0700, in files of mode
// 0600, which is removed when Solve returns for any reason but SIGKILL or a loss of power: point
// dir at a file system in memory. SIGINT, SIGTERM and SIGHUP end Solve with objpert.ErrInterrupted
// instead of the process.
type mipSolver struct {
	command string        // name or path; its base name begins with that of a solver
	limit   time.Duration // the time a solver gets; 0 means 60 s. It is killed 2 s later.
	dir     string        // where the folder of the model is made; "" means os.TempDir
	trace   func(mipClaim)
}

var _ objpert.Oracle = (*mipSolver)(nil)

// mipClaim is what a solver said of its answer. Not private, and not to be trusted: compare with
// the Solution.
type mipClaim struct {
	Status  string // its own words
	Runtime time.Duration
}

// solverName begins the base names of commands that a mipSolver knows.
const solverName = "cbc"

// solverArgs are the arguments of CBC, where MODEL and ANSWER stand for files and TIME for the
// limit in seconds.
const solverArgs = "MODEL -timeMode elapsed -seconds TIME -ratioGap 0 -solve -solution ANSWER"

// lookup returns the absolute path of the command.
func (o *mipSolver) lookup() (string, error) {
	if !strings.HasPrefix(filepath.Base(o.command), solverName) {
		return "", fmt.Errorf("%w: %q, want %s", errCommand, o.command, solverName)
	}
	path, err := exec.LookPath(o.command)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %q is not installed: %w", errCommand, o.command, err)
	}
	return path, nil
}

// Solve implements objpert.Oracle: it writes the model, runs the solver and recomputes its answer
// in integers. Proven is always false, and Lower -Inf: nothing is known.
//
// The error wraps errCommand, errNoPoint, objpert.ErrProblem, objpert.ErrInterrupted if ctx ended
// or a signal came, or a cause from the file system. It holds nothing that the solver printed.
func (o *mipSolver) Solve(ctx context.Context, p *objpert.Problem) (*objpert.Solution, error) {
	path, err := o.lookup()
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(o.limit, time.Minute)
	if limit < 0 {
		return nil, fmt.Errorf("limit = %v, want a positive time, or 0 for one minute", o.limit)
	}
	m, err := newModel(p)
	if err != nil {
		return nil, err
	}

	// From here on nothing but SIGKILL leaves the folder behind.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if ctx.Err() != nil {
		return nil, interruptedSearch(ctx)
	}
	dir, err := os.MkdirTemp(o.dir, "privopt-mip-") // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	start := time.Now()
	ans, err := runSolver(ctx, path, m, dir, limit)
	if o.trace != nil {
		o.trace(mipClaim{Status: ans.status, Runtime: time.Since(start)})
	}
	if err != nil {
		return nil, err
	}
	w, ok := m.point(ans.value)
	if !ok {
		return nil, fmt.Errorf("%w of the space: its answer is outside", errNoPoint)
	}
	return &objpert.Solution{W: w, Loss: p.Loss(w), Objective: p.Objective(w), Lower: math.Inf(-1)}, nil
}

// answer is what a solution file says.
type answer struct {
	status string
	value  []float64 // of the columns; nil if there is no solution
}

var errUnreadable = fmt.Errorf("%w: its solution cannot be read", errNoPoint)

func runSolver(
	ctx context.Context, path string, m *lpModel, dir string, limit time.Duration,
) (ans answer, err error) {
	const file, solution = "model.lp", "solution.sol"
	var lp bytes.Buffer
	err = m.writeLP(&lp)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, file), lp.Bytes(), 0o600)
	}
	if err != nil {
		return ans, err
	}
	seconds := max(1, int(math.Ceil(limit.Seconds())))
	words := strings.NewReplacer("MODEL", file, "ANSWER", solution, "TIME", strconv.Itoa(seconds))
	const grace = 2 * time.Second
	deadline, cancel := context.WithTimeout(ctx, min(limit, math.MaxInt64-grace)+grace)
	defer cancel()
	cmd := exec.CommandContext(deadline, path, strings.Fields(words.Replace(solverArgs))...)
	cmd.Dir = dir
	cmd.WaitDelay = 2 * time.Second // for children that keep a pipe open
	err = cmd.Run()                 // its output goes nowhere: it holds private values
	if ctx.Err() != nil {
		return ans, interruptedSearch(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && deadline.Err() == nil {
		return ans, fmt.Errorf("%w: %q did not start: %w", errCommand, path, err)
	}
	// A solver may fail after it wrote a point, and end well without one.
	f, err := os.Open(filepath.Join(dir, solution))
	if err != nil {
		return ans, fmt.Errorf("%w: it wrote no solution", errNoPoint)
	}
	defer f.Close()
	ans, err = parseAnswer(f, m)
	if err == nil && ans.value == nil {
		err = fmt.Errorf("%w within the limit", errNoPoint)
	}
	return ans, err
}

func interruptedSearch(ctx context.Context) error {
	return fmt.Errorf("%w: %w", objpert.ErrInterrupted, context.Cause(ctx))
}

// parseAnswer reads the file of CBC: the status, then lines that hold the name of a column followed
// by its value. Columns that are not named are 0.
func parseAnswer(r io.Reader, m *lpModel) (a answer, err error) {
	index := make(map[string]int, len(m.cols))
	for i, c := range m.cols {
		index[c.name] = i
	}
	s := bufio.NewScanner(r)
	for s.Scan() {
		line := s.Text()
		fields := strings.Fields(line)
		for i, f := range fields {
			col, ok := index[f]
			if !ok || i+1 >= len(fields) {
				continue
			}
			v, err := strconv.ParseFloat(fields[i+1], 64)
			if err != nil || math.IsNaN(v) {
				continue
			}
			if a.value == nil {
				a.value = make([]float64, len(m.cols))
			}
			a.value[col] = v
			break
		}
		if a.value == nil && a.status == "" && len(fields) > 0 {
			a.status = line
		}
	}
	if s.Err() != nil {
		return a, errUnreadable
	}
	if strings.Contains(strings.ToLower(a.status), "infeasible") {
		a.value = nil
	}
	return a, nil
}

// race lets a command and the search of this module minimize one problem. Its answer is the
// command's. Not private.
type race struct {
	command *mipSolver
	search  objpert.Oracle
	limit   time.Duration
	lap     Lap
	found   *objpert.Solution // by the command; nil if there is none
}

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

func newRace(command string, limit time.Duration) *race {
	r := &race{search: objpert.Search{Workers: 1}, limit: limit}
	r.command = &mipSolver{
		command: command,
		limit:   limit,
		trace: func(claim mipClaim) {
			r.lap.Status, r.lap.Seconds = claim.Status, claim.Runtime.Seconds()
			r.lap.ClaimsOptimum = strings.HasPrefix(strings.ToLower(claim.Status), "optimal")
		},
	}
	return r
}

// Solve implements objpert.Oracle.
func (r *race) Solve(ctx context.Context, p *objpert.Problem) (*objpert.Solution, error) {
	r.lap, r.found = Lap{}, nil
	found, err := r.command.Solve(ctx, p)
	if err != nil && !errors.Is(err, errNoPoint) {
		return nil, err
	}
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	best, e := r.search.Solve(bounded, p)
	r.lap.Search = time.Since(start).Seconds()
	switch {
	case e != nil && (ctx.Err() != nil || !errors.Is(e, objpert.ErrInterrupted)):
		return nil, e
	case e != nil:
		r.lap.Open = true
	}
	if err != nil {
		r.lap.NoPoint = true
		return nil, err
	}
	if !r.lap.Open {
		r.lap.Excess = found.Objective - best.Objective
	}
	r.found = found
	return found, nil
}
