package experiment

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/privopt/privopt/cmd/internal/sweep"
)

const convergenceHelp = `How the methods of package splitting converge, one picture a question.

The table goes to standard output: iterations and passes over the data to three accuracies. The
curves are convergence-NAME.csv, the pictures convergence-NAME.png:

  deterministic  gap against iterations: lasso in a box, ill-conditioned
  adaptive       gap against iterations: logistic regression with overlapping groups, whose sum
                 has no closed form; it shows the worth of a line search
  bias           distance to the minimizer against passes over the data: stochastic three-operator
                 splitting stays biased, variance reduction does not

All data are drawn from a fixed seed; nothing here is private.`

// Convergence is the command convergence: it returns its exit code.
func Convergence(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var names, chosen []string
	for _, f := range figures {
		names = append(names, f.name)
	}
	var out string
	f := sweep.NewFlags("convergence", convergenceHelp)
	f.StringVar(&out, "out", "convergence-out", "folder `DIR` of the curves and pictures")
	f.ListVar(&chosen, "figure", names, names, "figures `LIST` to draw")
	return f.Run(args, stdout, stderr, &sweep.Options{Out: "."}, func() error {
		for _, f := range figures {
			if slices.Contains(chosen, f.name) {
				if err := draw(ctx, f, out, stdout); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// draw solves the problem of f by its methods, prints the table and writes the picture.
func draw(ctx context.Context, f figure, out string, stdout io.Writer) error {
	e := f.make()
	fmt.Fprintf(stdout, "%s: %s\n", f.name, e.plot.Title)
	tab := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tab, "method\t")
	for _, a := range e.accuracies {
		fmt.Fprintf(tab, "%.0e\tpasses\t", a)
	}
	fmt.Fprintln(tab)
	var names []string
	var results []sweep.Result
	for _, m := range e.methods {
		points, err := e.trace(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", f.name, m.name, err)
		}
		names = append(names, m.name)
		for _, p := range points {
			results = append(results, sweep.Result{Method: m.name, Value: e.abscissa(p), Mean: p.Value})
		}
		fmt.Fprintf(tab, "%s\t", m.name)
		for _, a := range e.accuracies {
			p, ok := first(points, a)
			if !ok {
				fmt.Fprint(tab, "—\t—\t")
				continue
			}
			fmt.Fprintf(tab, "%d\t%.3g\t", p.Iterations, e.passes(p))
		}
		fmt.Fprintln(tab)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	png, err := e.plot.PNG(names, results)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	var curves bytes.Buffer
	w := csv.NewWriter(&curves)
	w.Write([]string{"method", e.plot.X, e.plot.Y})
	for _, r := range results {
		w.Write([]string{r.Method, strconv.FormatFloat(r.Value, 'g', -1, 64), strconv.FormatFloat(r.Mean, 'g', -1, 64)})
	}
	w.Flush()
	base := filepath.Join(out, "convergence-"+f.name)
	if err := errors.Join(w.Error(), sweep.WriteFile(base+".csv", curves.Bytes()), sweep.WriteFile(base+".png", png)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s.csv, .png\n\n", base)
	return err
}
