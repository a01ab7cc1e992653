package experiment

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/objpert"
)

// Cells run in parallel, so each search takes one worker.
var oracles = map[string]objpert.Oracle{
	"auto":      objpert.Auto{Workers: 1},
	"cells":     objpert.CellSearch{Workers: 1},
	"generic":   objpert.GenericSearch{Workers: 1},
	"enumerate": objpert.Enumerate{},
}

const oracleNames = "auto, cells, generic, enumerate, or cmd:NAME for a solver of mixed-integer programs"

func (c *halfspaceConfig) checkOracle() error {
	if oracles[c.Oracle] != nil {
		return nil
	}
	name, ok := strings.CutPrefix(c.Oracle, "cmd:")
	if !ok {
		return sweep.Usagef("flag -oracle = %q: want %s", c.Oracle, oracleNames)
	}
	known := func(solver string) bool { return strings.HasPrefix(filepath.Base(name), solver) }
	if !slices.ContainsFunc(Commands(), known) {
		return sweep.Usagef("flag -oracle = %q: want cmd: and one of %s", c.Oracle, strings.Join(Commands(), ", "))
	}
	if _, err := exec.LookPath(name); err != nil {
		return sweep.Usagef("flag -oracle = %q: %w; install it, or take the search of this program, -oracle auto", c.Oracle, err)
	}
	return nil
}

// external reports whether a command answers.
func (c *halfspaceConfig) external() bool { return strings.HasPrefix(c.Oracle, "cmd:") }

// oracle returns who minimizes, beside a command as well.
func (c *halfspaceConfig) oracle() objpert.Oracle {
	if c.external() {
		return oracles["auto"]
	}
	return oracles[c.Oracle]
}

// race lets a command and the search of this module minimize one problem. Its
// answer is the command's. Not private.
type race struct {
	command *Oracle
	search  objpert.Oracle
	bounded func(context.Context) (context.Context, context.CancelFunc)
	lap     Lap
}

// Lap is one problem of a race.
type Lap struct {
	Status        string  `json:"status"`           // what the command said
	Seconds       float64 `json:"seconds"`          // of the command
	Search        float64 `json:"search"`           // seconds of the search
	Excess        float64 `json:"excess,omitempty"` // of the command's point over the proven minimum
	Open          bool    `json:"open,omitempty"`   // -timeout ended the search, so that the minimum is not known
	NoPoint       bool    `json:"no_point,omitempty"`
	ClaimsOptimum bool    `json:"claims_optimum,omitempty"`
}

func (c *halfspaceConfig) race() *race {
	r := &race{search: c.oracle(), bounded: c.bounded}
	r.command = &Oracle{
		Command: strings.TrimPrefix(c.Oracle, "cmd:"),
		Limit:   c.timeout(),
		Trace: func(claim Claim) {
			r.lap.Status, r.lap.Seconds = claim.Status, claim.Runtime.Seconds()
			r.lap.ClaimsOptimum = strings.HasPrefix(strings.ToLower(claim.Status), "optimal")
		},
	}
	return r
}

// Solve implements objpert.Oracle.
func (r *race) Solve(ctx context.Context, p *objpert.Problem) (*objpert.Solution, error) {
	r.lap = Lap{}
	found, err := r.command.Solve(ctx, p)
	if err != nil && !errors.Is(err, ErrNoPoint) {
		return nil, err
	}
	start := time.Now()
	bounded, cancel := r.bounded(ctx)
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
	return found, nil
}
