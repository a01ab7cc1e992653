package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/cmd/internal/sweep"
)

var halfspaceKinds = []string{"opdisc", "gaussian", "paper", "product", "cube", "rspm", "rspm-paper", "logistic", "nonprivate"}

// params are the flags that decide the results: they identify a run.
type halfspaceParams struct {
	N        int         `json:"n"`    // records to fit
	Heldout  int         `json:"held"` // records that no method sees
	Features int         `json:"features"`
	Q        []int       `json:"q"`
	Delta    float64     `json:"delta"`
	Runs     int         `json:"runs"`
	Split    float64     `json:"split,omitempty"`
	Radius   float64     `json:"radius"`
	Oracle   string      `json:"oracle"`
	Timeout  float64     `json:"timeout,omitempty"` // seconds a search
	Data     *sweep.File `json:"data,omitempty"`
	Test     *sweep.File `json:"test,omitempty"`
}

// config is the command line.
type halfspaceConfig struct {
	sweep.Options
	halfspaceParams
	kinds      []string
	q, eps     string
	data, test string
	size       string
	values     []float64
	methods    []halfspaceMethod
}

// method is one column of the table.
type halfspaceMethod struct {
	name, kind string
	q          int // Q of a lattice
}

// method returns the method of the given name.
func (c *halfspaceConfig) method(name string) (m halfspaceMethod) {
	for _, m = range c.methods {
		if m.name == name {
			break
		}
	}
	return m
}

// searches reports whether the method minimizes by search.
func (m halfspaceMethod) searches() bool { return m.kind != "logistic" && m.kind != "nonprivate" }

// newConfig defines the flags.
func newHalfspace() (*halfspaceConfig, *sweep.Flags) {
	c := &halfspaceConfig{}
	f := sweep.NewFlags("halfspace", "Accuracy of private halfspaces and of private logistic regression as the budget grows.")
	f.StringVar(&c.data, "data", "", "adult.data, `FILE`, instead of generated records of the same shape")
	f.StringVar(&c.test, "test", "", "adult.test, `FILE`: measure held-out accuracy on it")
	f.IntVar(&c.N, "n", 15682, sweep.Between(2, 1e6), "generated records `N`, and half as many held out")
	f.FloatVar(&c.Split, "split", 0, sweep.Between(0, 0.9), "hold out this share `S` of the records, for held-out accuracy")
	var sizes []string
	for _, s := range adult.Sizes() {
		sizes = append(sizes, strconv.Itoa(s))
	}
	f.ChoiceVar(&c.size, "features", "23", sizes, "number `D` of features: 23 is the experiment, more have more categories")
	f.StringVar(&c.q, "q", "2,4,23", "squared norms `LIST` of the lattices; noise grows with them")
	f.StringVar(&c.eps, "eps", "0.1,0.3,0.5,0.7,1", "privacy budgets `LIST` of one release")
	f.FloatVar(&c.Delta, "delta", 0, sweep.Range{Max: math.Nextafter(1, 0), Example: 1e-9},
		"δ `D` of the methods that are not pure; 0 means 1/n^2")
	f.IntVar(&c.Runs, "runs", 15, sweep.Between(1, 1e6), "runs `N` a cell, each with fresh noise")
	f.ListVar(&c.kinds, "methods", []string{"opdisc", "paper", "product", "rspm", "logistic", "nonprivate"}, halfspaceKinds,
		"methods to compare, `LIST`")
	f.FloatVar(&c.Radius, "radius", 20, sweep.Positive(1e6), "public guess `B` at the norm of the solution that logistic is tuned for")
	f.StringVar(&c.Oracle, "oracle", "auto", "who minimizes, `NAME`: "+oracleNames+"; the answers of a command are incumbents, NOT PRIVATE")
	f.FloatVar(&c.Timeout, "timeout", 0, sweep.Between(0, 1e6), "end a search, that of nonprivate too, after `S` seconds, and the run with "+
		"it; 0: never, and 60 for a command")
	c.Register(f, "halfspace-out")
	return c, f
}

// check reports flags that contradict one another, and makes the grid.
func (c *halfspaceConfig) check() error {
	var err error
	if c.values, err = sweep.ParseValues("eps", c.eps, sweep.Positive(1e5), false); err != nil {
		return err
	}
	qs, err := sweep.ParseValues("q", c.q, sweep.Between(1, 4095), true) // 127 values of a weight
	if err != nil {
		return err
	}
	c.Q = nil
	for _, q := range qs {
		c.Q = append(c.Q, int(q))
	}
	slices.Sort(c.Q)
	c.Features, _ = strconv.Atoi(c.size)
	for _, k := range c.kinds {
		switch k {
		case "opdisc", "gaussian":
			for _, q := range c.Q {
				c.methods = append(c.methods, halfspaceMethod{fmt.Sprintf("%s-q%d", k, q), k, q})
			}
		case "paper":
			c.methods = append(c.methods, halfspaceMethod{k, k, c.Features})
		case "nonprivate":
			c.methods = append(c.methods, halfspaceMethod{k, k, c.Q[len(c.Q)-1]})
		default:
			c.methods = append(c.methods, halfspaceMethod{k, k, 0})
		}
	}
	switch {
	case c.test != "" && c.data == "":
		return sweep.Usagef("flag -test has no meaning without -data: generated records come with held-out ones")
	case c.test != "" && c.Split > 0:
		return sweep.Usagef("flags -test and -split both say what is held out: leave one out")
	case c.Split > 0 && c.data == "":
		return sweep.Usagef("flag -split has no meaning without -data: generated records come with held-out ones")
	}
	return c.checkOracle()
}

// experiment reads the records and returns the sweep over ε.
func (c *halfspaceConfig) experiment() (*sweep.Experiment, error) {
	d, err := c.load()
	if err != nil {
		return nil, err
	}
	c.N, c.Heldout = len(d.train.label), len(d.test.label)
	if c.Delta == 0 {
		c.Delta = 1 / (float64(c.N) * float64(c.N))
	}
	if err := sweep.CheckBudgets("-eps, -delta", c.Delta, c.values...); err != nil {
		return nil, err
	}
	e := &sweep.Experiment{
		Name:      "halfspace",
		Files:     "accuracy",
		Sweep:     "eps",
		Values:    c.values,
		Params:    c.halfspaceParams,
		Prepare:   func(_ context.Context, cell sweep.Cell) (sweep.Task, error) { return d.prepare(cell) },
		Summarize: c.summarize,
		Columns:   halfspaceColumns,
		Figures:   c.figures,
		Plot:      c.plot("Training accuracy"),
	}
	if c.data != "" {
		e.NotPrivate = "accuracies and times are computed from the records, no noise hides them"
	}
	if c.external() {
		e.NotPrivate = "the answers of " + c.Oracle + " are incumbents, not proven minimizers"
	}
	for _, m := range c.methods {
		e.Methods = append(e.Methods, m.name)
	}
	return e, nil
}

func (c *halfspaceConfig) plot(what string) sweep.Plot {
	return sweep.Plot{
		Title:  fmt.Sprintf("%s of private halfspaces (n = %d, d = %d, %d runs, bars of one standard deviation)", what, c.N, c.Features, c.Runs),
		X:      "eps",
		Y:      "accuracy",
		Linear: true,
		Dashed: []string{"paper", "nonprivate", "logistic"},
	}
}

// timeout is -timeout, 0 for never.
func (c *halfspaceConfig) timeout() time.Duration {
	if c.Timeout == 0 {
		return 0
	}
	return max(1, time.Duration(c.Timeout*float64(time.Second)))
}

// bounded returns ctx with the time that a search gets.
func (c *halfspaceConfig) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout())
}
