// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/internal/testkit"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/prox"
)

// Every exported function of the packages below has a row in the tables of
// inputs_tables_test.go: a call that is valid. From it the test makes the calls that
// are not, by putting each hostile value in the place of each argument, field and
// element, one at a time, and holds them to what the module promises:
//
//   - no panic but a documented constant that begins with the package's name;
//   - an error has the package's name, says what is wanted, and comes with no result;
//   - without an error no result holds a NaN, unless the row says that it may;
//   - no result changes when a slice, a map or a struct behind an argument does, unless the row
//     says that the documentation announces it.

var (
	hostileFloats = []float64{
		0, math.Copysign(0, -1), -1, 1, 1.5, 1e-320, math.SmallestNonzeroFloat64, 0x1p-51, 1e-9, -1e-9, 1e6, 1e154, 1e308,
		math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1),
	}
	hostileInts    = []int64{-1 << 40, -1, 0, 1, 2, 7}
	hostileStrings = []string{"", "\x00", "x", "NaN", "1e400", "a,b\n1,2\n", "\ufeffa,b\r\n\"1\",2\r\n", "a,b\n1\n",
		"\xff,b\n1,2\n"}
)

// alternatives of the interfaces that arguments have.
var alternatives = map[reflect.Type][]any{
	reflect.TypeFor[prox.Operator](): {prox.L1{Weight: math.NaN()}, prox.L1{Weight: -1}, prox.Box{Lo: 1, Hi: -1},
		prox.SortedL1{Weights: []float64{1}}},
	reflect.TypeFor[prox.Set](): {prox.Box{Lo: 1, Hi: -1}, prox.Box{Lo: math.Inf(-1), Hi: math.Inf(1)},
		prox.Box{Lo: 1, Hi: 1}, prox.L2Ball{R: math.NaN()}, prox.L2Ball{R: -1}, prox.Simplex{}},
	reflect.TypeFor[loss.Loss](): {loss.Huber{Delta: math.NaN()}, loss.Huber{}, loss.SmoothedHinge{Gamma: -1},
		loss.Clipped{}, loss.Logistic{}},
	reflect.TypeFor[io.Reader]():  {strings.NewReader(""), strings.NewReader("a,b\n1,x\n"), failingReader{}},
	reflect.TypeFor[mat.Matrix](): {mat.NewDense(1, 2, []float64{math.NaN(), 1}), mat.NewDense(3, 1, nil)},
	reflect.TypeFor[mat.Symmetric](): {mat.NewSymDense(2, []float64{math.NaN(), 0, 0, 1}),
		mat.NewSymDense(1, []float64{-1}), mat.NewSymDense(2, []float64{1e308, 1e308, 1e308, 1e308})},
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, fs.ErrPermission }

// row is a valid call of an exported function.
type row struct {
	f    any
	args []any
	// nan says that NaN in gives NaN out, as documented.
	nan bool
	// skip names arguments, by position, that stay as they are.
	skip []int
	// brief says that of the hostile values only nil, NaN and wrong lengths are tried.
	brief bool
	// long says that calls take long: without PRIVOPT_LONG every fifth hostile value is tried.
	long bool
	// shares says that the result refers to an argument, as documented.
	shares bool
}

func call(f any, args ...any) row { return row{f: f, args: args} }

func (r row) mayBeNaN() row        { r.nan = true; return r }
func (r row) sharing() row         { r.shares = true; return r }
func (r row) keep(args ...int) row { r.skip = args; return r }
func (r row) slow() row            { r.long = true; return r }

// variant is one hostile value somewhere inside an argument.
type variant struct {
	where string
	value reflect.Value
}

// variants returns copies of v with one hostile value each.
func variants(where string, v reflect.Value) (out []variant) {
	t := v.Type()
	add := func(x any) {
		n := reflect.New(t).Elem()
		n.Set(reflect.ValueOf(x).Convert(t))
		out = append(out, variant{fmt.Sprintf("%s = %v", where, x), n})
	}
	switch t.Kind() {
	case reflect.Float64:
		for _, x := range hostileFloats {
			add(x)
		}
	case reflect.Uint64:
		for _, x := range []uint64{0, 1, 2, 1 << 40, math.MaxUint64} {
			add(x)
		}
	case reflect.Int, reflect.Int64:
		for _, x := range hostileInts {
			add(x)
		}
	case reflect.String:
		for _, x := range hostileStrings {
			add(x)
		}
	case reflect.Slice:
		out = append(out, variant{where + " = nil", reflect.Zero(t)}, variant{where + " empty", reflect.MakeSlice(t, 0, 0)})
		if v.Len() > 1 {
			out = append(out, variant{where + " shorter", v.Slice(0, v.Len()-1)})
		}
		if v.Len() > 0 {
			out = append(out, variant{where + " longer", reflect.Append(copyOf(v), v.Index(0))})
			for _, e := range variants(where+"[0]", v.Index(0)) {
				n := copyOf(v)
				n.Index(0).Set(e.value)
				out = append(out, variant{e.where, n})
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if !t.Field(i).IsExported() {
				continue
			}
			for _, e := range variants(where+"."+t.Field(i).Name, v.Field(i)) {
				n := reflect.New(t).Elem()
				n.Set(v)
				n.Field(i).Set(e.value)
				out = append(out, variant{e.where, n})
			}
		}
	case reflect.Func, reflect.Map:
		out = append(out, variant{where + " = nil", reflect.Zero(t)})
	case reflect.Pointer:
		out = append(out, variant{where + " = nil", reflect.Zero(t)})
		if t.Elem().Kind() != reflect.Struct || v.IsNil() || strings.HasPrefix(t.Elem().PkgPath(), "gonum.org") {
			break
		}
		for _, e := range variants(where, v.Elem()) {
			n := reflect.New(t.Elem())
			n.Elem().Set(e.value)
			out = append(out, variant{e.where, n})
		}
	case reflect.Interface:
		for _, x := range alternatives[t] {
			n := reflect.New(t).Elem()
			n.Set(reflect.ValueOf(x))
			out = append(out, variant{fmt.Sprintf("%s = %T%v", where, x, x), n})
		}
		out = append(out, variant{where + " = nil", reflect.Zero(t)})
	}
	return out
}

func copyOf(v reflect.Value) reflect.Value {
	return reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()+1), v)
}

// everyInput runs the table of a package.
func everyInput(t *testing.T, pkg string, table map[string]row) {
	t.Helper()
	for _, name := range exported(t, pkg) {
		if _, ok := table[name]; !ok {
			missing := t.Logf                                // a function in the making breaks nobody's tests but those of CI
			if os.Getenv("CI") != "" && pkg != "splitting" { // most of its methods are reached through Solve only
				missing = t.Errorf
			}
			missing("%s.%s has no row in the table of bad inputs", pkg, name)
		}
	}
	for name, r := range table {
		f, ok := r.f.(reflect.Value)
		if !ok {
			f = reflect.ValueOf(r.f)
		}
		args := make([]reflect.Value, len(r.args))
		fresh := func() []reflect.Value { // slices that a call writes to are not shared
			for i, a := range r.args {
				in := f.Type().In(min(i, f.Type().NumIn()-1))
				if f.Type().IsVariadic() && i >= f.Type().NumIn()-1 {
					in = in.Elem()
				}
				n := reflect.New(in).Elem()
				if a != nil {
					n.Set(reflect.ValueOf(clone(a)))
				}
				args[i] = n
			}
			return args
		}
		perform(t, pkg, name, "valid", r, f, fresh(), true)
		if !r.shares {
			keepsNothing(t, name, f, fresh())
		}
		for i := range args {
			skip := false
			for _, s := range r.skip {
				skip = skip || s == i
			}
			if skip {
				continue
			}
			for k, v := range variants(fmt.Sprintf("argument %d", i), fresh()[i]) {
				if strings.HasSuffix(v.where, " = nil") && v.value.Kind() != reflect.Slice && !fails(f) {
					continue // nothing could report it: a pointer that its constructor returned with an error, a nil source
				}
				if r.brief && !briefly.MatchString(v.where) || r.long && k%5 > 0 && !testkit.Long() {
					continue
				}
				a := append([]reflect.Value{}, fresh()...)
				a[i] = v.value
				perform(t, pkg, name, v.where, r, f, a, false)
			}
		}
	}
}

// keepsNothing calls f, overwrites all that the arguments refer to, and compares the results.
func keepsNothing(t *testing.T, name string, f reflect.Value, args []reflect.Value) {
	t.Helper()
	for i, a := range args {
		args[i] = duplicate(a)
	}
	var results []reflect.Value
	for _, r := range f.Call(args) { // but for a vector that f filled
		if !slices.ContainsFunc(args, func(a reflect.Value) bool {
			return a.Kind() == reflect.Slice && r.Kind() == reflect.Slice && a.Pointer() == r.Pointer()
		}) {
			results = append(results, r)
		}
	}
	var before, after strings.Builder
	for _, r := range results {
		digest(&before, r, map[uintptr]bool{})
	}
	for _, a := range args {
		overwrite(a, false)
	}
	for _, r := range results {
		digest(&after, r, map[uintptr]bool{})
	}
	if before.String() != after.String() {
		t.Errorf("%s: what it returned changes with its arguments:\n%.2000s\n%.2000s", name, &before, &after)
	}
}

// duplicate copies slices, maps and what pointers to structs with exported fields refer to.
func duplicate(v reflect.Value) reflect.Value {
	n := reflect.New(v.Type()).Elem()
	n.Set(v)
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			n.Set(duplicate(v.Elem()))
		}
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct && v.Elem().NumField() > 0 &&
			v.Elem().Type().Field(0).IsExported() {
			n.Set(reflect.New(v.Type().Elem()))
			n.Elem().Set(duplicate(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n.Field(i).Set(duplicate(v.Field(i)))
			}
		}
	case reflect.Slice:
		if !v.IsNil() {
			n.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				n.Index(i).Set(duplicate(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			n.Set(reflect.MakeMap(v.Type()))
			for _, k := range v.MapKeys() {
				n.SetMapIndex(k, duplicate(v.MapIndex(k)))
			}
		}
	}
	return n
}

// overwrite changes what v refers to, and v itself where it is the element of something.
func overwrite(v reflect.Value, inside bool) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() && v.Elem().Kind() != reflect.Struct {
			overwrite(v.Elem(), false)
		}
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			overwrite(v.Elem(), true)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				overwrite(v.Field(i), inside)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			overwrite(v.Index(i), true)
		}
	case reflect.Map:
		v.Clear()
	case reflect.Float64:
		if inside && v.CanSet() {
			v.SetFloat(v.Float() + 1.25)
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if inside && v.CanSet() {
			v.SetInt(v.Int() + 1)
		}
	case reflect.String:
		if inside && v.CanSet() {
			v.SetString(v.String() + "!")
		}
	}
}

// digest writes all numbers and strings that v refers to.
func digest(w *strings.Builder, v reflect.Value, seen map[uintptr]bool) {
	if w.Len() > 1<<20 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Kind() == reflect.Pointer && seen[v.Pointer()] {
			return
		}
		if v.Kind() == reflect.Pointer {
			seen[v.Pointer()] = true
		}
		digest(w, v.Elem(), seen)
	case reflect.Struct:
		if path := v.Type().PkgPath(); path == "sync" || path == "sync/atomic" || path == "math/rand/v2" {
			return
		}
		for i := range v.NumField() {
			digest(w, v.Field(i), seen)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			digest(w, v.Index(i), seen)
		}
	case reflect.Map:
		fmt.Fprint(w, v.Len(), " ")
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
	default:
		fmt.Fprint(w, v, " ")
	}
}

// fails reports whether f returns an error.
func fails(f reflect.Value) bool {
	n := f.Type().NumOut()
	return n > 0 && f.Type().Out(n-1) == reflect.TypeFor[error]()
}

var briefly = regexp.MustCompile(`( = nil| = NaN| empty| shorter| longer)$`)

// brief marks all rows as brief.
func brief(rows map[string]row) map[string]row {
	for name, r := range rows {
		r.brief = true
		rows[name] = r
	}
	return rows
}

// clone copies slices of numbers and starts sources and readers anew.
func clone(a any) any {
	switch a := a.(type) {
	case []float64:
		return append([]float64{}, a...)
	case func() rand.Source:
		return a()
	case func() io.Reader:
		return a()
	case func() *mat.SymDense:
		return a()
	}
	return a
}

func perform(t *testing.T, pkg, name, where string, r row, f reflect.Value, args []reflect.Value, valid bool) {
	t.Helper()
	prefix := path.Base(pkg) + ":"
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, bug := p.(runtime.Error); bug || valid || !strings.HasPrefix(fmt.Sprint(p), prefix) {
			t.Errorf("%s with %s panics: %v", name, where, p)
		} else if !saysPanic(t, pkg, name, strings.HasSuffix(fmt.Sprint(p), "length mismatch")) {
			t.Errorf("%s with %s panics, which its documentation does not say: %v", name, where, p)
		}
	}()
	results := f.Call(args)
	var err error
	if n := len(results); fails(f) {
		err, _ = results[n-1].Interface().(error)
		results = results[:n-1]
	}
	if err != nil {
		text := err.Error()
		if valid {
			t.Errorf("%s refuses what is valid: %v", name, err)
		}
		if !strings.HasPrefix(text, prefix) && !strings.HasPrefix(text, "dp: ") && !strings.HasPrefix(text, "table: ") &&
			!strings.HasPrefix(text, "lop: ") && !strings.HasPrefix(text, "erm: ") || len(text) < 25 {
			t.Errorf("%s with %s: error %q does not begin with %q and a reason", name, where, text, prefix)
		}
		if !strings.Contains(text, "want") && !remedy(text) {
			t.Errorf("%s with %s: error %q names no range and no fix", name, where, text)
		}
		return
	}
	if r.nan {
		return
	}
	for _, v := range results {
		if at, bad := holdsNaN(v, 0); bad {
			t.Errorf("%s with %s returns NaN%s", name, where, at)
		}
	}
}

// holdsNaN looks for a NaN in numbers, slices, and exported fields.
func holdsNaN(v reflect.Value, depth int) (at string, bad bool) {
	if depth > 5 {
		return "", false
	}
	switch v.Kind() {
	case reflect.Float64:
		return "", math.IsNaN(v.Float())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return holdsNaN(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range min(v.Len(), 100) {
			if at, bad := holdsNaN(v.Index(i), depth+1); bad {
				return fmt.Sprintf("[%d]%s", i, at), true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Type().Field(i).IsExported() && name != "Public" { // what a plan was asked for
				if at, bad := holdsNaN(v.Field(i), depth+1); bad {
					return "." + name + at, true
				}
			}
		}
	case reflect.Func: // curves: at a few points
		if p, ok := v.Interface().(interface{ Epsilon(float64) float64 }); ok {
			return "()", math.IsNaN(p.Epsilon(1e-6))
		}
	}
	return "", false
}

// saysPanic reports whether the comment of a function, of an interface of the package that has the
// method, or, of lengths that do not match, of the package says that it panics.
func saysPanic(t *testing.T, pkg, name string, lengths bool) bool {
	_, method, _ := strings.Cut(name, ".")
	says := func(c *ast.CommentGroup) bool { return strings.Contains(c.Text(), "panic") }
	for _, f := range parsed(t, pkg) {
		if says(f.Doc) && lengths {
			return true
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if qualified(d) == name && says(d.Doc) {
					return true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					spec, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					i, ok := spec.Type.(*ast.InterfaceType)
					if !ok {
						continue
					}
					for _, m := range i.Methods.List {
						if len(m.Names) == 1 && m.Names[0].Name == method && (says(m.Doc) || says(d.Doc)) {
							return true
						}
					}
				}
			}
		}
	}
	return false
}

// printing are methods that have tests of their own.
var printing = map[string]bool{
	"String": true, "Format": true, "GoString": true, "MarshalText": true, "UnmarshalText": true, "MarshalJSON": true,
	"MarshalBinary": true, "GobEncode": true,
}

// exported lists the exported functions of a package and the exported methods of
// its exported types, but for printing and encoding, which have tests of their own.
func exported(t *testing.T, pkg string) (names []string) {
	t.Helper()
	for _, f := range parsed(t, pkg) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			if printing[fn.Name.Name] {
				continue
			}
			if name := qualified(fn); ast.IsExported(name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// qualified returns the name of a function, that of a method behind its type.
func qualified(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	recv := fn.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	if id, ok := recv.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return "." + fn.Name.Name
}

// parsedFiles holds the parsed files of packages.
var parsedFiles = map[string][]*ast.File{}

// parsed returns the files of a package without its tests.
func parsed(t *testing.T, pkg string) []*ast.File {
	t.Helper()
	if parsedFiles[pkg] != nil {
		return parsedFiles[pkg]
	}
	files, err := fs.Glob(testRoot, pkg+"/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(testRoot, file)
		require.NoError(t, err)
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution|parser.ParseComments)
		require.NoError(t, err)
		parsedFiles[pkg] = append(parsedFiles[pkg], f)
	}
	return parsedFiles[pkg]
}

func fixed() rand.Source { return noise.Reproducible(1) }

var background = context.Background()
