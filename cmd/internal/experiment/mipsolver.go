package experiment

import (
	"bufio"
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/privopt/privopt/objpert"
)

// Errors of an Oracle. Test with errors.Is.
var (
	// ErrCommand reports a command that is unknown, absent or failed to run.
	ErrCommand = errors.New("halfspace: no such solver")

	// ErrNoPoint reports that the solver found no point of W.
	ErrNoPoint = errors.New("halfspace: the solver found no point")
)

// Oracle hands problems to a solver of mixed-integer programs that is installed as a command.
//
// Its answers are incumbents and never proofs: solvers work in float64 with tolerances, and have
// reported points that were not optimal as optimal. Loss and objective are recomputed in integers,
// Solution.Proven is always false, and the mechanisms of objpert withhold.
//
// The model holds the records and the noise. It lies in a new folder of mode 0700, in files of mode
// 0600, which is removed when Solve returns for any reason but SIGKILL or a loss of power: point Dir
// at a file system in memory. SIGINT, SIGTERM and SIGHUP end Solve with objpert.ErrInterrupted
// instead of the process.
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
	Status  string // its own words
	Runtime time.Duration
}

// solver is what is known of a program.
type solver struct {
	name    string
	args    func(model, solution, options string, seconds int) []string
	parse   func(r io.Reader, m *lpModel) (answer, error)
	options string // content of the options file
}

var solvers = []solver{
	{
		name: "cbc",
		args: func(model, solution, _ string, seconds int) []string {
			return []string{model, "-timeMode", "elapsed", "-seconds", strconv.Itoa(seconds), "-ratioGap", "0", "-solve", "-solution", solution}
		},
		parse: parseNamed,
	},
	{
		name: "glpsol",
		args: func(model, solution, _ string, seconds int) []string {
			return []string{"--lp", model, "--tmlim", strconv.Itoa(seconds), "--cuts", "-w", solution}
		},
		parse: parseGLPK,
	},
	{
		name: "highs",
		args: func(model, solution, options string, seconds int) []string {
			return []string{model, "--options_file", options, "--time_limit", strconv.Itoa(seconds), "--solution_file", solution}
		},
		parse:   parseNamed,
		options: "mip_rel_gap = 0\nmip_abs_gap = 1e-9\n",
	},
	{
		name: "scip",
		args: func(model, solution, _ string, seconds int) []string {
			return []string{"-q", "-c", fmt.Sprintf("read %s set limits time %d optimize write solution %s quit", model, seconds, solution)}
		},
		parse: parseNamed,
	},
	{
		name: "gurobi_cl",
		args: func(model, solution, _ string, seconds int) []string {
			return []string{"TimeLimit=" + strconv.Itoa(seconds), "MIPGap=0", "LogFile=", "ResultFile=" + solution, model}
		},
		parse: parseNamed,
	},
}

// Commands are the base names that Oracle knows.
func Commands() (names []string) {
	for _, s := range solvers {
		names = append(names, s.name)
	}
	return names
}

// lookup returns the absolute path of the command and what is known of it.
func (o *Oracle) lookup() (string, solver, error) {
	base := filepath.Base(o.Command)
	for _, s := range solvers {
		if !strings.HasPrefix(base, s.name) {
			continue
		}
		path, err := exec.LookPath(o.Command)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return "", solver{}, fmt.Errorf("%w: %q is not installed: %w", ErrCommand, o.Command, err)
		}
		return path, s, nil
	}
	return "", solver{}, fmt.Errorf("%w: Command = %q, want one of %s", ErrCommand, o.Command, strings.Join(Commands(), ", "))
}

// Find returns the point of Solve. It has the form of the Heuristic of objpert.SampleAndAggregate.
func (o *Oracle) Find(ctx context.Context, p *objpert.Problem) ([]int, error) {
	s, err := o.Solve(ctx, p)
	if s == nil {
		return nil, err
	}
	return s.W, err
}

// Solve implements objpert.Oracle: it writes the model, runs the solver and recomputes its answer
// in integers. Proven is always false, and Lower -Inf: nothing is known.
//
// The error wraps ErrCommand, ErrNoPoint, objpert.ErrProblem, objpert.ErrInterrupted if ctx ended
// or a signal came, or a cause from the file system. It holds nothing that the solver printed.
func (o *Oracle) Solve(ctx context.Context, p *objpert.Problem) (*objpert.Solution, error) {
	path, sv, err := o.lookup()
	if err != nil {
		return nil, err
	}
	limit := cmp.Or(o.Limit, time.Minute)
	if limit < 0 {
		return nil, fmt.Errorf("halfspace: Limit = %v, want a positive time, or 0 for one minute", o.Limit)
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
	dir, err := os.MkdirTemp(o.Dir, "privopt-mip-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("halfspace: %w", err)
	}
	defer os.RemoveAll(dir)

	start := time.Now()
	ans, err := runSolver(ctx, path, sv, m, dir, limit)
	if o.Trace != nil {
		o.Trace(Claim{Status: ans.status, Runtime: time.Since(start)})
	}
	if err != nil {
		return nil, err
	}
	w, ok := m.point(ans.value)
	if !ok {
		return nil, fmt.Errorf("%w of the space: its answer is outside", ErrNoPoint)
	}
	return &objpert.Solution{W: w, Loss: p.Loss(w), Objective: p.Objective(w), Lower: math.Inf(-1)}, nil
}

// answer is what a solution file says.
type answer struct {
	status string
	value  []float64 // of the columns; nil if there is no solution
}

var errUnreadable = fmt.Errorf("%w: its solution cannot be read", ErrNoPoint)

func runSolver(ctx context.Context, path string, sv solver, m *lpModel, dir string, limit time.Duration) (ans answer, err error) {
	const file, solution, options = "model.lp", "solution.sol", "options.txt"
	if err := create(filepath.Join(dir, file), m.writeLP); err != nil {
		return ans, err
	}
	if err := os.WriteFile(filepath.Join(dir, options), []byte(sv.options), 0o600); err != nil {
		return ans, fmt.Errorf("halfspace: %w", err)
	}
	seconds := max(1, int(math.Ceil(limit.Seconds())))
	const grace = 2 * time.Second
	deadline, cancel := context.WithTimeout(ctx, min(limit, math.MaxInt64-grace)+grace)
	defer cancel()
	cmd := exec.CommandContext(deadline, path, sv.args(file, solution, options, seconds)...)
	cmd.Dir = dir
	cmd.WaitDelay = 2 * time.Second // for children that keep a pipe open
	err = cmd.Run()                 // its output goes nowhere: it holds private values
	if ctx.Err() != nil {
		return ans, interruptedSearch(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && deadline.Err() == nil {
		return ans, fmt.Errorf("%w: %q did not start: %w", ErrCommand, path, err)
	}
	// A solver may fail after it wrote a point, and end well without one.
	f, err := os.Open(filepath.Join(dir, solution))
	if err != nil {
		return ans, fmt.Errorf("%w: it wrote no solution", ErrNoPoint)
	}
	defer f.Close()
	ans, err = sv.parse(f, m)
	if err == nil && ans.value == nil {
		err = fmt.Errorf("%w within the limit", ErrNoPoint)
	}
	return ans, err
}

// create writes a file of mode 0600 that did not exist.
func create(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("halfspace: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("halfspace: %w", err)
	}
	return nil
}

func interruptedSearch(ctx context.Context) error {
	return fmt.Errorf("%w: %w", objpert.ErrInterrupted, context.Cause(ctx))
}

// parseNamed reads lines that hold the name of a column followed by its value, as
// CBC, HiGHS, SCIP and Gurobi write them; columns that are not named are 0. The
// first line, or the one after "Model status", is the status.
func parseNamed(r io.Reader, m *lpModel) (a answer, err error) {
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
		if a.value == nil && a.status == "" && len(fields) > 0 && !strings.EqualFold(line, "model status") {
			a.status = line
		}
		if strings.HasPrefix(line, "# Dual") {
			break // what follows in a HiGHS file are prices
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

// parseGLPK reads the file of glpsol -w, which numbers the columns in the order of the model:
//
//	s mip ROWS COLS STATUS OBJECTIVE
//	j COLUMN VALUE
func parseGLPK(r io.Reader, m *lpModel) (a answer, err error) {
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
		case len(f) == 3 && f[0] == "j":
			j, err := strconv.Atoi(f[1])
			v, err2 := strconv.ParseFloat(f[2], 64)
			if err != nil || err2 != nil || j < 1 || j > len(value) || math.IsNaN(v) {
				return a, errUnreadable
			}
			value[j-1] = v
		}
	}
	if s.Err() != nil {
		return a, errUnreadable
	}
	return a, nil
}
