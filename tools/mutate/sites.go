package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"
)

// A mutant is one place of the source and what is changed there.
type mutant struct {
	id        int
	file      string // as named on the command line
	line      int
	function  string
	from, to  string // the operator or constant, before and after
	statement string // the line of source, for the report and for equivalents
}

// operators maps each arithmetic and comparison operator to the one that
// replaces it, and to the helper that knows both.
var operators = map[token.Token]struct {
	to     token.Token
	helper string
}{
	token.ADD: {token.SUB, "Add"}, token.SUB: {token.ADD, "Sub"},
	token.MUL: {token.QUO, "Mul"}, token.QUO: {token.MUL, "Quo"},
	token.LSS: {token.GEQ, "Lss"}, token.LEQ: {token.GTR, "Leq"},
	token.GTR: {token.LEQ, "Gtr"}, token.GEQ: {token.LSS, "Geq"},
	token.EQL: {token.NEQ, "Eql"}, token.NEQ: {token.EQL, "Neq"},
}

// assignments maps x ⊕= y to its operator.
var assignments = map[token.Token]token.Token{
	token.ADD_ASSIGN: token.ADD, token.SUB_ASSIGN: token.SUB,
	token.MUL_ASSIGN: token.MUL, token.QUO_ASSIGN: token.QUO,
}

// edit inserts text at offset, in place of the next cut bytes. Of two edits at
// one offset the one with the smaller rank comes first.
type edit struct {
	offset, cut, rank int
	text              string
}

// rewriter finds the sites of one file and writes them as calls of helpers
// that do what the operator does unless their mutant is the active one.
type rewriter struct {
	fset    *token.FileSet
	info    *types.Info
	src     []byte
	file    string
	next    *int
	mutants []mutant
	edits   []edit
	stack   []ast.Node
}

// rewrite returns the text of f with all its sites replaced.
func (r *rewriter) rewrite(f *ast.File) string {
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			r.stack = r.stack[:len(r.stack)-1]
			return true
		}
		if !r.visit(n) {
			return false
		}
		r.stack = append(r.stack, n)
		return true
	})
	slices.SortStableFunc(r.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.rank, b.rank))
	})
	var out strings.Builder
	at := 0
	for _, e := range r.edits {
		out.Write(r.src[at:e.offset])
		out.WriteString(e.text)
		at = e.offset + e.cut
	}
	out.Write(r.src[at:])
	for _, i := range f.Imports { // still imported if its last use was min or max
		if i.Path.Value == `"math"` && i.Name == nil {
			out.WriteString("\nvar _ = math.Pi\n")
		}
	}
	return out.String()
}

// visit adds the sites of n itself and reports whether to look inside.
func (r *rewriter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.ArrayType:
		return false
	case *ast.GenDecl:
		return n.Tok != token.CONST && n.Tok != token.TYPE && n.Tok != token.IMPORT
	case *ast.CallExpr:
		switch r.text(n.Fun) {
		case "math.Inf", "math.IsInf": // only the sign of the argument counts
			return false
		case "fmt.Errorf", "errors.New", "panic": // messages
			return false
		}
	}
	if e, ok := n.(ast.Expr); ok {
		if r.besideError(e) {
			return false
		}
		if tv, known := r.info.Types[e]; known && tv.Value != nil {
			r.constant(e, tv)
			return false
		}
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if op, ok := operators[n.Op]; ok && r.number(n.X) && r.number(n.Y) {
			id := r.add(n, n.OpPos, n.Op.String(), op.to.String())
			r.wrap(n.Pos(), n.End(), fmt.Sprintf("mutate%s(%d, ", op.helper, id), ")")
			r.edits = append(r.edits, edit{r.offset(n.OpPos), len(n.Op.String()), 0, ","})
		}
	case *ast.UnaryExpr:
		if n.Op == token.SUB && r.number(n.X) {
			id := r.add(n, n.OpPos, "-x", "x")
			r.wrap(n.Pos(), n.End(), fmt.Sprintf("mutateNeg(%d, ", id), ")")
			r.edits = append(r.edits, edit{r.offset(n.OpPos), 1, 2, ""})
		}
	case *ast.AssignStmt:
		if op, ok := assignments[n.Tok]; ok && r.number(n.Lhs[0]) {
			o := operators[op]
			id := r.add(n, n.TokPos, n.Tok.String(), o.to.String()+"=")
			r.edits = append(r.edits, edit{r.offset(n.TokPos), 2, 0,
				fmt.Sprintf("= mutate%s(%d, %s, ", o.helper, id, r.text(n.Lhs[0]))})
			r.wrap(n.Rhs[0].Pos(), n.Rhs[0].End(), "", ")")
		}
	case *ast.CallExpr:
		to := map[string]string{"min": "max", "max": "min", "math.Min": "math.Max", "math.Max": "math.Min"}
		if name := r.text(n.Fun); to[name] != "" && r.number(n) && len(n.Args) > 1 {
			id := r.add(n, n.Pos(), name, to[name])
			helper := map[string]string{"min": "Least", "max": "Most"}[strings.ToLower(name[len(name)-3:])]
			r.edits = append(r.edits, edit{r.offset(n.Pos()), len(name), 2, "mutate" + helper},
				edit{r.offset(n.Lparen) + 1, 0, -1 << 20, fmt.Sprintf("%d, ", id)})
		}
	}
	return true
}

// besideError reports whether e is returned together with an error, so that
// nobody reads it.
func (r *rewriter) besideError(e ast.Expr) bool {
	if len(r.stack) == 0 {
		return false
	}
	ret, ok := r.stack[len(r.stack)-1].(*ast.ReturnStmt)
	if !ok || len(ret.Results) < 2 || e == ret.Results[len(ret.Results)-1] {
		return false
	}
	last := ret.Results[len(ret.Results)-1]
	t := r.info.TypeOf(last)
	return t != nil && types.Implements(t, errorType) && r.text(last) != "nil"
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

// constant adds a site for a constant number: a float shrinks by 1/16, an
// integer grows by 1, and 0 becomes 1.
func (r *rewriter) constant(e ast.Expr, tv types.TypeAndValue) {
	basic, ok := tv.Type.(*types.Basic)
	if !ok || basic.Info()&(types.IsInteger|types.IsFloat) == 0 || basic.Info()&types.IsUntyped != 0 {
		return
	}
	if len(r.stack) > 0 {
		if kv, ok := r.stack[len(r.stack)-1].(*ast.KeyValueExpr); ok && kv.Key == e {
			return
		}
	}
	to := ""
	switch v := constant.ToFloat(tv.Value); {
	case constant.Sign(v) == 0:
		to = "1"
	case basic.Info()&types.IsInteger != 0:
		to = "+1"
	default:
		to = "·15/16"
	}
	id := r.add(e, e.Pos(), r.text(e), to)
	r.wrap(e.Pos(), e.End(), fmt.Sprintf("mutateConst[%s](%d, ", basic.Name(), id), ")")
}

// wrap puts before and after around a span; outer spans stay outside.
func (r *rewriter) wrap(pos, end token.Pos, before, after string) {
	r.edits = append(r.edits,
		edit{r.offset(pos), 0, len(r.stack) - 1<<10, before},
		edit{r.offset(end), 0, -len(r.stack) - 1<<12, after})
}

func (r *rewriter) add(n ast.Node, pos token.Pos, from, to string) int {
	*r.next++
	p := r.fset.Position(pos)
	lines := strings.Split(string(r.src), "\n")
	r.mutants = append(r.mutants, mutant{*r.next, r.file, p.Line, r.function(), from, to, strings.TrimSpace(lines[p.Line-1])})
	return *r.next
}

func (r *rewriter) function() string {
	for _, n := range r.stack {
		if f, ok := n.(*ast.FuncDecl); ok {
			if f.Recv != nil {
				return strings.TrimLeft(r.text(f.Recv.List[0].Type), "*") + "." + f.Name.Name
			}
			return f.Name.Name
		}
	}
	return "package"
}

// number reports whether e has a real numeric type.
func (r *rewriter) number(e ast.Expr) bool {
	b, ok := r.info.TypeOf(e).Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsInteger|types.IsFloat) != 0
}

func (r *rewriter) offset(p token.Pos) int { return r.fset.Position(p).Offset }

func (r *rewriter) text(n ast.Node) string { return string(r.src[r.offset(n.Pos()):r.offset(n.End())]) }

// parsed is a package ready to be rewritten.
type parsed struct {
	fset  *token.FileSet
	files map[string]*ast.File // by path
	info  *types.Info
	name  string
}

// parse type-checks the Go files of one package.
func parse(paths []string, imp types.Importer) (*parsed, error) {
	p := &parsed{fset: token.NewFileSet(), files: map[string]*ast.File{},
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}}
	var all []*ast.File
	for _, path := range paths {
		f, err := parser.ParseFile(p.fset, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.files[path], p.name = f, f.Name.Name
		all = append(all, f)
	}
	conf := types.Config{Importer: imp}
	_, err := conf.Check(p.name, p.fset, all, p.info)
	return p, err
}

// rewriteFile returns the mutants of a file and its text with all of them in.
func (p *parsed) rewriteFile(path string, next *int) ([]mutant, string, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	r := &rewriter{fset: p.fset, info: p.info, src: src, file: path, next: next}
	text := r.rewrite(p.files[path])
	return r.mutants, text, nil
}
