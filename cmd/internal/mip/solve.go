package mip

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/privopt/privopt/objpert"
)

// Errors that this package wraps. Test with errors.Is.
var (
	// ErrCommand reports a command that is unknown, absent or failed to run.
	ErrCommand = errors.New("mip: no such solver")

	// ErrNoPoint reports that the solver found no point of W.
	ErrNoPoint = errors.New("mip: the solver found no point")
)

// Oracle runs a solver. Its answers are incumbents, never proofs: see the
// package comment.
type Oracle struct {
	// Command is the name or the path of the solver. The base name says which one
	// it is: cbc, glpsol, highs, scip or gurobi_cl, with any suffix.
	Command string
	// Limit is the time a solver gets; 0 means 60 s. It is killed 2 s later.
	Limit time.Duration
	// Dir is where the folder of the model is made; "" means os.TempDir.
	Dir string
	// Trace, if not nil, receives what the solver claimed. Not private.
	Trace func(Claim)
}

var _ objpert.Oracle = (*Oracle)(nil)

// Claim is what a solver said of its answer. Not private, and not to be trusted:
// compare with the Solution.
type Claim struct {
	Status    string  // its own words
	Objective float64 // without Σ min(Pos, Neg); NaN if not given
	Runtime   time.Duration
}

// solver is what is known of a program.
type solver struct {
	args    func(model, solution, options string, seconds int) []string
	parse   func(r io.Reader, m *model) (answer, error)
	options string // content of the options file, "" for none
}

var solvers = map[string]solver{
	"cbc": {
		args: func(model, solution, _ string, seconds int) []string {
			return []string{model, "-timeMode", "elapsed", "-seconds", strconv.Itoa(seconds), "-ratioGap", "0", "-solve", "-solution", solution}
		},
		parse: parseNamed,
	},
	"glpsol": {
		args: func(model, solution, _ string, seconds int) []string {
			return []string{"--lp", model, "--tmlim", strconv.Itoa(seconds), "--cuts", "-w", solution}
		},
		parse: parseGLPK,
	},
	"highs": {
		args: func(model, solution, options string, seconds int) []string {
			return []string{model, "--options_file", options, "--time_limit", strconv.Itoa(seconds), "--solution_file", solution}
		},
		parse:   parseNamed,
		options: "mip_rel_gap = 0\nmip_abs_gap = 1e-9\n",
	},
	"scip": {
		args: func(model, solution, _ string, seconds int) []string {
			return []string{"-q", "-c", fmt.Sprintf("read %s set limits time %d optimize write solution %s quit", model, seconds, solution)}
		},
		parse: parseNamed,
	},
	"gurobi_cl": {
		args: func(model, solution, _ string, seconds int) []string {
			return []string{"TimeLimit=" + strconv.Itoa(seconds), "MIPGap=0", "LogFile=", "ResultFile=" + solution, model}
		},
		parse: parseNamed,
	},
}

// Commands are the base names that Oracle knows.
func Commands() []string { return []string{"cbc", "glpsol", "highs", "scip", "gurobi_cl"} }

// lookup returns the absolute path of the command and what is known of it.
func (o *Oracle) lookup() (string, solver, error) {
	base := filepath.Base(o.Command)
	for _, name := range Commands() {
		if o.Command == "" || !strings.HasPrefix(base, name) {
			continue
		}
		path, err := exec.LookPath(o.Command)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return "", solver{}, fmt.Errorf("%w: %q is not installed: %w", ErrCommand, o.Command, err)
		}
		return path, solvers[name], nil
	}
	return "", solver{}, fmt.Errorf("%w: Command = %q, want one of %s", ErrCommand, o.Command, strings.Join(Commands(), ", "))
}

// Find returns the point of Solve. It has the form of the Heuristic of
// objpert.SampleAndAggregate.
func (o *Oracle) Find(ctx context.Context, p *objpert.Problem) ([]int, error) {
	s, err := o.Solve(ctx, p)
	if s == nil {
		return nil, err
	}
	return s.W, err
}

// Solve implements objpert.Oracle: it writes the model, runs the solver and
// recomputes its answer in integers. Proven is always false, and Lower a bound
// that needs no solver.
//
// The error wraps ErrCommand, ErrNoPoint, objpert.ErrProblem, objpert.ErrInterrupted
// if ctx ended or a signal came, or a cause from the file system. It holds
// nothing that the solver printed.
func (o *Oracle) Solve(ctx context.Context, p *objpert.Problem) (*objpert.Solution, error) {
	path, sv, err := o.lookup()
	if err != nil {
		return nil, err
	}
	limit := o.Limit
	if limit == 0 {
		limit = time.Minute
	}
	if limit < 0 {
		return nil, fmt.Errorf("mip: Limit = %v, want a positive time, or 0 for one minute", o.Limit)
	}
	m, err := newModel(p)
	if err != nil {
		return nil, err
	}

	// From here on nothing but SIGKILL leaves the folder behind.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if ctx.Err() != nil {
		return nil, interrupted(ctx)
	}
	dir, err := os.MkdirTemp(o.Dir, "privopt-mip-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("mip: %w", err)
	}
	defer os.RemoveAll(dir)

	start := time.Now()
	ans, err := run(ctx, path, sv, m, dir, limit)
	claim := Claim{Status: ans.status, Objective: ans.objective, Runtime: time.Since(start)}
	if o.Trace != nil {
		o.Trace(claim)
	}
	if err != nil {
		return nil, err
	}
	w, ok := m.point(ans.value)
	if !ok {
		return nil, fmt.Errorf("%w of the space: its answer is outside", ErrNoPoint)
	}
	return &objpert.Solution{W: w, Loss: p.Loss(w), Objective: p.Objective(w), Lower: math.Min(lower(p), p.Objective(w))}, nil
}

// answer is what a solution file says.
type answer struct {
	status    string
	objective float64
	value     []float64 // of the columns; nil if there is no solution
}

func run(ctx context.Context, path string, sv solver, m *model, dir string, limit time.Duration) (answer, error) {
	none := answer{objective: math.NaN()}
	const file, solution, options = "model.lp", "solution.sol", "options.txt"
	if err := create(filepath.Join(dir, file), m.writeLP); err != nil {
		return none, err
	}
	seconds := max(1, int(math.Ceil(limit.Seconds())))
	if sv.options != "" {
		text := func(w io.Writer) error { _, err := io.WriteString(w, sv.options); return err }
		if err := create(filepath.Join(dir, options), text); err != nil {
			return none, err
		}
	}
	const grace = 2 * time.Second
	deadline, cancel := context.WithTimeout(ctx, min(limit, math.MaxInt64-grace)+grace)
	defer cancel()
	cmd := exec.CommandContext(deadline, path, sv.args(file, solution, options, seconds)...)
	cmd.Dir = dir
	cmd.WaitDelay = 2 * time.Second // for children that keep a pipe open
	err := cmd.Run()                // its output goes nowhere: it holds private values
	if ctx.Err() != nil {
		return none, interrupted(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && deadline.Err() == nil {
		return none, fmt.Errorf("%w: %q did not start: %w", ErrCommand, path, err)
	}
	// A solver may fail after it wrote a point, and end well without one.
	f, err := os.Open(filepath.Join(dir, solution))
	if err != nil {
		return none, fmt.Errorf("%w: it wrote no solution", ErrNoPoint)
	}
	defer f.Close()
	ans, err := sv.parse(bufio.NewReader(f), m)
	if err != nil {
		return ans, err
	}
	if ans.value == nil {
		return ans, fmt.Errorf("%w within the limit", ErrNoPoint)
	}
	return ans, nil
}

// create writes a file of mode 0600 that did not exist.
func create(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("mip: %w", err)
	}
	err = write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("mip: %w", err)
	}
	return nil
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: %w", objpert.ErrInterrupted, context.Cause(ctx))
}

// parseNamed reads lines that hold the name of a column followed by its value, as
// CBC, HiGHS, SCIP and Gurobi write them; columns that are not named are 0. The
// first line with a letter, or the one after "Model status", is the status.
func parseNamed(r io.Reader, m *model) (answer, error) {
	a := answer{objective: math.NaN()}
	index := make(map[string]int, len(m.cols))
	for i, c := range m.cols {
		index[c.name] = i
	}
	s := bufio.NewScanner(r)
	for s.Scan() {
		fields := strings.Fields(s.Text())
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
		a.header(s.Text(), fields)
		if len(fields) > 0 && fields[0] == "#" && strings.HasPrefix(s.Text(), "# Dual") {
			break // what follows in a HiGHS file are prices
		}
	}
	if err := s.Err(); err != nil {
		return a, fmt.Errorf("%w: its solution cannot be read", ErrNoPoint)
	}
	if strings.Contains(strings.ToLower(a.status), "infeasible") {
		a.value = nil
	}
	return a, nil
}

// header takes status and objective from the lines before the columns.
func (a *answer) header(line string, fields []string) {
	if a.value != nil || len(fields) == 0 {
		return
	}
	lower := strings.ToLower(line)
	if at := strings.Index(lower, "objective"); at >= 0 && math.IsNaN(a.objective) {
		if v, err := strconv.ParseFloat(fields[len(fields)-1], 64); err == nil {
			a.objective = v
		}
	}
	switch {
	case lower == "model status": // HiGHS: the status is on the next line
	case a.status == "":
		a.status = line
	}
}

// parseGLPK reads the file of glpsol -w, which numbers the columns in the order
// of the model:
//
//	s mip ROWS COLS STATUS OBJECTIVE
//	j COLUMN VALUE
func parseGLPK(r io.Reader, m *model) (answer, error) {
	a := answer{objective: math.NaN()}
	value := make([]float64, len(m.cols))
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text())
		switch {
		case len(f) == 6 && f[0] == "s" && f[1] == "mip":
			words := map[string]string{"o": "optimal", "f": "feasible", "n": "no feasible point", "u": "undefined"}
			a.status = words[f[4]]
			if f[4] == "o" || f[4] == "f" {
				a.value = value
			}
			if v, err := strconv.ParseFloat(f[5], 64); err == nil {
				a.objective = v
			}
		case len(f) == 3 && f[0] == "j":
			j, err := strconv.Atoi(f[1])
			v, err2 := strconv.ParseFloat(f[2], 64)
			if err != nil || err2 != nil || j < 1 || j > len(value) || math.IsNaN(v) {
				return a, fmt.Errorf("%w: its solution cannot be read", ErrNoPoint)
			}
			value[j-1] = v
		}
	}
	if s.Err() != nil {
		return a, fmt.Errorf("%w: its solution cannot be read", ErrNoPoint)
	}
	return a, nil
}
