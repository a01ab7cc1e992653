// Mutate measures how well the tests of a package pin down its arithmetic. It
// changes one operator, comparison or constant of the named files at a time,
// runs the package's quick tests, and reports each change that no test noticed.
//
//	go build -C tools/mutate -o mutate . && tools/mutate/mutate -files dp/gaussian.go,dp/rdp.go -tests ./dp
//
// All mutants are compiled at once: each site becomes a call of a helper that
// does something else while its number is the active one, so that a mutant
// costs one run of the tests that reach it and no compilation. The working tree
// is not touched (go test -overlay).
//
// # Mutants
//
//   - ↔ -, * ↔ /, also in +=, -=, *= and /=
//     < ↔ >=, <= ↔ >, == ↔ != between numbers
//     -x → x
//     min ↔ max, math.Min ↔ math.Max
//     a constant: 0 → 1, an integer k → k+1, a float c → c·15/16
//
// Left alone are messages (arguments of fmt.Errorf and panic), the sign that
// math.Inf and math.IsInf take, enumerations and declarations of constants
// (each use of a constant is a site).
//
// A mutant is killed if a test fails, panics or takes ten times as long as it
// did, and five seconds. The file of -equivalents lists sites whose change no
// test can or should see, one "file | function | piece of the line | from |
// reason" a line, where * matches every constant or operator and × the
// operator *; they are counted apart.
package main

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

type options struct {
	files, tests []string
	equivalents  string
	budget       time.Duration
	quick        time.Duration
	seed         uint64
	least        float64
	verbose      bool
	only         string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	files := flags.String("files", "", "comma-separated Go files of one package")
	tests := flags.String("tests", "", "comma-separated packages whose quick tests must notice")
	flags.StringVar(&o.equivalents, "equivalents", "tools/mutate/equivalents.txt", "file of documented equivalents")
	flags.DurationVar(&o.budget, "budget", 0, "stop after this time, with the mutants in random order; 0 means all of them in order")
	flags.Uint64Var(&o.seed, "seed", 1, "of the random order")
	flags.Float64Var(&o.least, "least", 0.95, "fraction to be killed; less is exit code 1")
	flags.StringVar(&o.only, "only", "", "only mutants whose line of source contains this text")
	flags.DurationVar(&o.quick, "quick", 5*time.Second, "leave out tests that take longer than this")
	flags.BoolVar(&o.verbose, "v", false, "print the test that killed each mutant")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	o.files, o.tests = split(*files), split(*tests)
	if len(o.files) == 0 || len(o.tests) == 0 {
		fmt.Fprintln(stderr, "mutate: want -files and -tests")
		return 2
	}
	ok, err := o.measure(ctx, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
	}
	if !ok {
		return 1
	}
	return 0
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// measure runs the mutants and prints the survivors and the rate.
func (o *options) measure(ctx context.Context, stdout, stderr io.Writer) (bool, error) {
	known, err := readEquivalents(o.equivalents)
	if err != nil {
		return false, err
	}
	work, err := os.MkdirTemp("", "mutate-*")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)
	b, err := build(ctx, work, o.files, o.tests)
	if err != nil {
		return false, err
	}
	if err := b.baseline(ctx, o.quick); err != nil {
		return false, err
	}
	if o.budget > 0 {
		slices.SortFunc(b.mutants, func(x, y mutant) int { return cmp.Compare(o.rank(x), o.rank(y)) })
	}
	start := time.Now()
	var killed, survived, equivalent, ran int
	for _, m := range b.mutants {
		if o.only != "" && !strings.Contains(m.statement, o.only) {
			continue
		}
		if o.budget > 0 && time.Since(start) > o.budget {
			break
		}
		ran++
		if known.has(m) {
			equivalent++
			continue
		}
		switch killer := b.try(ctx, m); {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case killer != "":
			killed++
			if o.verbose {
				fmt.Fprintf(stderr, "%v  %s\n", m, killer)
			}
		default:
			survived++
			fmt.Fprintln(stdout, m)
		}
	}
	rate := float64(killed) / float64(max(killed+survived, 1))
	fmt.Fprintf(stdout, "%s: %d of %d mutants run in %v: %d killed, %d survived, %d documented equivalents: %.1f %%\n",
		strings.Join(o.files, ","), ran, len(b.mutants), time.Since(start).Round(time.Second), killed, survived, equivalent, 100*rate)
	return killed+survived == 0 || rate >= o.least, nil
}

// rank puts mutants in an order that looks random and depends on the seed.
func (o *options) rank(m mutant) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, o.seed, m.id)
	return h.Sum64()
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d %s: %s → %s: %s", m.file, m.line, m.function, m.from, m.to, m.statement)
}

// equivalent is a line of the file of documented equivalents.
type equivalent struct {
	file, function, piece, from, reason string
}

type equivalents []equivalent

func readEquivalents(path string) (equivalents, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list equivalents
	for in := bufio.NewScanner(f); in.Scan(); {
		line := strings.TrimSpace(in.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(line, " | ", 5)
		if len(parts) != 5 {
			return nil, fmt.Errorf("%s: %q: want five fields between \" | \"", path, line)
		}
		list = append(list, equivalent{parts[0], parts[1], parts[2], parts[3], parts[4]})
	}
	return list, nil
}

func (l equivalents) has(m mutant) bool {
	return slices.ContainsFunc(l, func(e equivalent) bool {
		return e.file == filepath.ToSlash(m.file) && e.function == m.function &&
			strings.Contains(m.statement, e.piece) && (e.from == "*" || strings.ReplaceAll(e.from, "×", "*") == m.from)
	})
}
