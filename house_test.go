// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Limits of a source file. A line may be wider if it is a row of numbers, or what an
// example prints.
const (
	fileLines      = 600 // a file has fewer
	lineColumns    = 120 // a tab counts as one
	commentColumns = 100
	strayTests     = 10 // at most so many test files have no file of their name
)

var numbers = regexp.MustCompile(`^[-+0-9a-fA-FxXpP_.,{}\[\]()&/ \t"]*$`)

// sources calls visit with every Go file of the module, but for testdata.
func sources(t *testing.T, visit func(name, text string)) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		text, err := os.ReadFile(name)
		visit(name, string(text))
		return err
	}))
}

// licence is the first line of every file.
const licence = "// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT\n"

// TestSize: every file begins with its licence, no file is long and no line is wide.
func TestSize(t *testing.T) {
	sources(t, func(name, text string) {
		lines := strings.Split(text, "\n")
		if n := len(lines) - 3; n >= fileLines { // without the licence
			t.Errorf("%s has %d lines, want fewer than %d: split it by subject", name, n, fileLines)
		}
		if !strings.HasPrefix(text, licence) {
			t.Errorf("%s does not begin with %q", name, licence)
		}
		printed := false // by an example
		for i, line := range lines {
			trimmed := strings.TrimSpace(line)
			comment := strings.HasPrefix(trimmed, "//")
			printed = comment && (printed || strings.HasSuffix(strings.ToLower(trimmed), "output:"))
			most := lineColumns
			if comment && !strings.HasPrefix(trimmed, "//go:") {
				most = commentColumns
			}
			if utf8.RuneCountInString(line) <= most || printed || numbers.MatchString(line) {
				continue
			}
			t.Errorf("%s:%d has more than %d columns: break it", name, i+1, most)
		}
	})
}

// TestWings: the folder of commands holds three commands and what they share. The laboratory is a
// module of its own, and the user's command does not link what only figures need.
func TestWings(t *testing.T) {
	var names []string
	entries, err := os.ReadDir("cmd")
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"internal", "privopt", "research", "scaling"}, names)
	out, err := exec.Command("go", "list", "-deps", "./cmd/privopt").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "github.com/spf13/cobra")
	require.NotContains(t, string(out), "gonum.org/v1/plot")
	all, err := exec.Command("go", "list", "./...").Output()
	require.NoError(t, err)
	require.NotContains(t, string(all), "research")
}

// Special functions and searches are written once, in internal/num.
var written = regexp.MustCompile(`(?m)^func (lgamma|normalCDF|chiLogDelta|leastSigma|gauss|panelOf)\(`)

// Phrases of the first version's comments that readers stumbled over.
var stumbles = regexp.MustCompile(`(?m)^\s*// .*(as told|what becomes of|is let off|ever after|` +
	`plays its part|which tells that)`)

// TestPlainWords: numerical functions stand in internal/num, and comments are free of phrases that
// had to be decoded.
func TestPlainWords(t *testing.T) {
	sources(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		if f := written.FindString(text); f != "" && !strings.HasPrefix(name, "internal/num/") {
			t.Errorf("%s: %q belongs in internal/num", name, f)
		}
		if c := stumbles.FindString(text); c != "" {
			t.Errorf("%s: %q: use a plain verb", name, strings.TrimSpace(c))
		}
	})
	require.True(t, written.MatchString("package p\n\nfunc gauss(f func(float64) float64)"))
	require.True(t, stumbles.MatchString("\t// it does as told"))
}

// clocks are what tests do not call: what they decide must not depend on how long something takes.
var clocks = regexp.MustCompile(`require\.(Eventually|Never|WithinDuration)|time\.(After|AfterFunc|Tick)\(|` +
	`time\.Now\(\)\.(Before|After|Sub)|time\.Since\([^)]*\) *[<>]|(Greater|Less)\w*\([^\n]*time\.Since`)

// timed are tests that make their own moment, and decide nothing by it.
var timed = []string{
	"objpert/search_test.go", // cancels searches at random moments
}

// TestNoClock: no test fails because the machine is busy. testkit.Until waits.
func TestNoClock(t *testing.T) {
	sources(t, func(name, text string) {
		if !strings.HasSuffix(name, "_test.go") || name == "house_test.go" || slices.Contains(timed, name) {
			return
		}
		for _, found := range clocks.FindAllString(text, -1) {
			t.Errorf("%s: %s reads a clock", name, found)
		}
	})
	require.True(t, clocks.MatchString("require.Less(t, time.Since(start), limit)"))
	require.False(t, clocks.MatchString("t.Log(time.Since(start))"))
}

// TestTestsFollowFiles: a test file is named after the file it tests. Others are examples, fuzz
// tests, benchmarks, tests of the inside of a package, and the gates of the root package.
func TestTestsFollowFiles(t *testing.T) {
	files := map[string]bool{}
	sources(t, func(name, _ string) { files[name] = true })
	var orphans []string
	for name := range files {
		stem, test := strings.CutSuffix(name, "_test.go")
		if !test || path.Dir(name) == "." {
			continue
		}
		switch base := path.Base(stem); {
		case base == "example", base == "bench", base == "export", base == "fuzz":
			continue
		}
		for _, kind := range []string{"_fuzz", "_internal", "_linux", "_amd64"} {
			stem = strings.TrimSuffix(stem, kind)
		}
		if !files[stem+".go"] {
			orphans = append(orphans, name)
		}
	}
	slices.Sort(orphans)
	require.LessOrEqual(t, len(orphans), strayTests, "%s", strings.Join(orphans, "\n"))
}

// public parses the packages that a user of the module may import, by folder: neither
// commands nor what is internal.
func public(t *testing.T, tests bool) (map[string][]*ast.File, *token.FileSet) {
	t.Helper()
	fset, packages := token.NewFileSet(), map[string][]*ast.File{}
	sources(t, func(name, text string) {
		dir := path.Dir(name)
		first, _, _ := strings.Cut(dir, "/")
		internal := strings.Contains("/"+dir+"/", "/internal/")
		if internal || first == "cmd" || strings.HasSuffix(name, "_test.go") != tests {
			return
		}
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		if f.Name.Name != "main" {
			packages[dir] = append(packages[dir], f)
		}
	})
	return packages, fset
}

// TestDocumented: every exported name has a comment, that of a function or type begins with
// its name, and every package shows its use in an example.
func TestDocumented(t *testing.T) {
	packages, fset := public(t, false)
	missing := func(at ast.Node, name *ast.Ident, docs ...*ast.CommentGroup) {
		if !name.IsExported() {
			return
		}
		for _, doc := range docs {
			if doc.Text() != "" {
				return
			}
		}
		t.Errorf("%v: %s is exported and has no comment", fset.Position(at.Pos()), name)
	}
	named := func(at ast.Node, name *ast.Ident, doc *ast.CommentGroup) {
		missing(at, name, doc)
		text := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(doc.Text(), "A "), "An "), "The ")
		if name.IsExported() && text != "" && !strings.HasPrefix(text, name.Name) {
			t.Errorf("%v: the comment of %s does not begin with its name", fset.Position(at.Pos()), name)
		}
	}
	for _, files := range packages {
		for _, f := range files {
			for _, decl := range f.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					if exportedReceiver(d) {
						named(d, d.Name, d.Doc)
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						switch s := spec.(type) {
						case *ast.TypeSpec:
							doc := s.Doc
							if doc == nil {
								doc = d.Doc
							}
							named(s, s.Name, doc)
						case *ast.ValueSpec:
							for _, name := range s.Names {
								missing(s, name, s.Doc, s.Comment, d.Doc)
							}
						}
					}
				}
			}
		}
	}
	tests, _ := public(t, true)
	for dir := range packages {
		shown := false
		for _, f := range tests[dir] {
			for _, decl := range f.Decls {
				d, ok := decl.(*ast.FuncDecl)
				shown = shown || ok && d.Recv == nil && strings.HasPrefix(d.Name.Name, "Example")
			}
		}
		if !shown {
			t.Errorf("package %s has no Example", dir)
		}
	}
}

// TestTypesLiveWhereUsersLook: no exported name is an alias of a type of an internal package, whose
// fields and methods go doc would not show.
func TestTypesLiveWhereUsersLook(t *testing.T) {
	packages, fset := public(t, false)
	require.NotEmpty(t, packages)
	for _, files := range packages {
		for _, f := range files {
			for _, name := range internalAliases(f) {
				t.Errorf("%v: %s is an alias of a type of an internal package: define the type here",
					fset.Position(name.Pos()), name)
			}
		}
	}
	const text = `package p
import (
	other "example.com/m/internal/linear"
	"example.com/m/internal/num"
	"example.com/m/lop"
)
type Plan = other.Plan
type Panels = *num.Panels
type Fine = lop.Plan
type hidden = num.Panels
type Kind num.Kind
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	require.NoError(t, err)
	var found []string
	for _, name := range internalAliases(f) {
		found = append(found, name.Name)
	}
	require.Equal(t, []string{"Plan", "Panels"}, found)
}

// internalAliases returns the exported names of a file that are aliases of types of internal
// packages.
func internalAliases(f *ast.File) (names []*ast.Ident) {
	internal := map[string]bool{}
	for _, imp := range f.Imports {
		file := strings.Trim(imp.Path.Value, "`\"")
		name := path.Base(file)
		if imp.Name != nil {
			name = imp.Name.Name
		}
		internal[name] = strings.Contains(file, "/internal/")
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !spec.Assign.IsValid() || !spec.Name.IsExported() {
			return true
		}
		inside := false
		ast.Inspect(spec.Type, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				pkg, ok := s.X.(*ast.Ident)
				inside = inside || ok && internal[pkg.Name]
			}
			return true
		})
		if inside {
			names = append(names, spec.Name)
		}
		return true
	})
	return names
}

// exportedReceiver reports whether f is a function, or a method of an exported type.
func exportedReceiver(f *ast.FuncDecl) bool { return f.Recv == nil || receiver(f).IsExported() }

// receiver returns the name of the type of a method.
func receiver(f *ast.FuncDecl) *ast.Ident {
	typ := f.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t
		default:
			return ast.NewIdent("_")
		}
	}
}

// lines is the price of every package: its most lines of Go outside of tests. Whoever raises a row
// lowers another in the same change, or says in CHANGELOG.md what the lines buy, as a number.
// A package that shrank gets its new number by `go test . -run TestSizeOfPackages -update`.
const lines = `
. 71
additive 253
beam 2086
beam/cmd/privopt-beam 267
cmd/internal/adult 251
cmd/internal/screen 428
cmd/internal/sweep 1941
cmd/privopt 37
cmd/privopt/cli 6092
cmd/privopt/report 583
cmd/research 2276
cmd/research/audit 6323
cmd/research/experiment 2811
cmd/scaling 1213
dp 1604
dp/dptest 304
dp/internal/pld 875
dp/ledger 1176
erm 5729
erm/ermtest 122
examples/ownmechanism 72
internal/enclose 542
internal/fault 162
internal/kernel 637
internal/linear 3447
internal/lop 816
internal/noise 1485
internal/num 1366
internal/prefix 61
internal/release 1150
internal/testkit 853
internal/wholefile 97
lasso 599
lop 325
loss 1941
loss/losstest 458
model 8100
model/score 2281
objpert 5120
prox 4611
prox/proxtest 317
qop 3768
randmat 1017
sco 1445
splitting 6840
table 4041
table/npy 717
table/parquet 745
`

// Limits of sums of lines outside of tests, and of two habits that make code hard to read. Whoever
// makes a number smaller lowers its limit.
const (
	rootLines       = 73620 // of the module of the root
	internalLines   = 10616 // of internal/
	laboratoryLines = 11412 // of what measures the mechanisms
	rootPackages    = 42
	threeValues     = 42 // statements that assign three or more values
	chainedErrors   = 0  // calls of cmp.Or with errors, which evaluate all of their arguments
)

// laboratory are the folders of what measures the mechanisms.
var laboratory = regexp.MustCompile(`^cmd/research(/|$)`)

// TestSizeOfPackages: no package grows beyond its row of lines, nor do all of them together.
func TestSizeOfPackages(t *testing.T) {
	now, modules := map[string]int{}, map[string]bool{}
	sources(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		now[path.Dir(name)] += strings.Count(text, "\n")
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, err := os.Stat(path.Join(dir, "go.mod")); err == nil {
				modules[path.Dir(name)] = true
			}
		}
	})
	limits, sums := map[string]int{}, map[string]int{}
	for _, row := range strings.Split(strings.TrimSpace(lines), "\n") {
		dir, n, _ := strings.Cut(row, " ")
		limit, err := strconv.Atoi(n)
		require.NoError(t, err, row)
		require.Contains(t, now, dir, "a row of lines without its package: remove it")
		limits[dir] = limit
		if *update && now[dir] < limit {
			lowered := strings.NewReplacer("\n"+row+"\n", fmt.Sprintf("\n%s %d\n", dir, now[dir]))
			text, err := os.ReadFile("house_test.go")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile("house_test.go", []byte(lowered.Replace(string(text))), 0o644))
		}
	}
	for dir, n := range now {
		if limit, ok := limits[dir]; !ok || n > limit {
			t.Errorf("%s has %d lines outside of tests, more than %d, its row of lines", dir, n, limit)
		}
		if strings.HasPrefix(dir, "internal/") {
			sums["internal"] += n
		}
		if laboratory.MatchString(dir) {
			sums["laboratory"] += n
		}
		if !modules[dir] {
			sums["root"] += n
			sums["packages"]++
		}
	}
	t.Log(sums)
	require.LessOrEqual(t, sums["root"], rootLines)
	require.LessOrEqual(t, sums["internal"], internalLines)
	require.LessOrEqual(t, sums["laboratory"], laboratoryLines)
	require.LessOrEqual(t, sums["packages"], rootPackages)
}

// TestSizeOfStatements: statements do one thing. The two habits that are counted are those that
// kept readers from seeing what a line does.
func TestSizeOfStatements(t *testing.T) {
	values, chains, all := 0, 0, 0
	sources(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		all += strings.Count(text, "\n")
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		v, c := habits(f)
		values, chains = values+v, chains+c
	})
	t.Logf("%d statements assign three or more values, %.2g of 1000 lines; cmp.Or chains errors %d times", values,
		1000*float64(values)/float64(all), chains)
	require.LessOrEqual(t, values, threeValues, "assign one thing in a statement")
	require.LessOrEqual(t, chains, chainedErrors, "write if err != nil")

	const bad = `package p
func f() (int, error) {
	a, b, c := 1, 2, 3
	a, b, err := g()
	err = cmp.Or(err, h())
	if e := cmp.Or(check(), m.Check()); e != nil { return 0, cmp.Or(x, y) }
	h(func(x, y int) int { return cmp.Or(x, y) })
	return cmp.Or(a, 1), nil
}`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", bad, 0)
	require.NoError(t, err)
	v, c := habits(f)
	require.Equal(t, [2]int{1, 3}, [2]int{v, c})
}

// checks are names of functions and variables that are errors.
var checks = regexp.MustCompile(`(?i)^(err|bad|worse|failed|check\w*|refuse|close|writefile|plain)$`)

// habits counts the statements of a file that assign three or more values, and the calls of cmp.Or
// with errors: an argument has the name of an error or of a check, or the function returns the
// call as its error, or it is assigned to err.
func habits(f *ast.File) (values, chains int) {
	found := map[ast.Node]bool{}
	isOr := func(x ast.Expr) bool {
		call, ok := x.(*ast.CallExpr)
		if !ok {
			return false
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "Or" && nameOf(f.X) == "cmp"
	}
	var visit func(results *ast.FieldList) func(n ast.Node) bool // of the function around
	visit = func(results *ast.FieldList) func(n ast.Node) bool {
		return func(n ast.Node) bool {
			switch s := n.(type) {
			case *ast.FuncDecl:
				results = s.Type.Results
			case *ast.FuncLit:
				ast.Inspect(s.Body, visit(s.Type.Results))
				return false
			case *ast.AssignStmt:
				if len(s.Rhs) >= 3 {
					values++
				}
				for i, x := range s.Rhs {
					if isOr(x) && checks.MatchString(nameOf(s.Lhs[i])) {
						found[x] = true
					}
				}
			case *ast.ReturnStmt:
				for i, x := range s.Results {
					last := i == len(s.Results)-1 && results != nil && len(results.List) > 0
					if last && isOr(x) && nameOf(results.List[len(results.List)-1].Type) == "error" {
						found[x] = true
					}
				}
			case *ast.CallExpr:
				for _, arg := range s.Args {
					if call, ok := arg.(*ast.CallExpr); ok {
						arg = call.Fun
					}
					if isOr(s) && checks.MatchString(nameOf(arg)) {
						found[s] = true
					}
				}
			}
			return true
		}
	}
	ast.Inspect(f, visit(nil))
	return values, len(found)
}

// nameOf returns the last name of an identifier or selector, or "".
func nameOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}
