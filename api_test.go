// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write api.txt")

// TestAPI compares the exported names of the module, with their signatures, to api.txt:
// what a user can rely on changes on purpose only. `go test . -run TestAPI -update` writes it.
func TestAPI(t *testing.T) {
	packages, fset := public(t, false)
	var text strings.Builder
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		l := &listing{t: t, fset: fset, pkg: dir}
		for _, f := range packages[dir] {
			l.file(f)
		}
		slices.Sort(l.lines)
		text.WriteString(strings.Join(slices.Compact(l.lines), ""))
	}
	if *update {
		require.NoError(t, os.WriteFile("api.txt", []byte(text.String()), 0o644))
	}
	want, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	old, now := strings.Split(string(want), "\n"), strings.Split(text.String(), "\n")
	for _, line := range old {
		if !slices.Contains(now, line) {
			t.Errorf("gone: %s", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			t.Errorf("new: %s", line)
		}
	}
	if t.Failed() {
		t.Log("if that is meant, say so in CHANGELOG.md and run: go test . -run TestAPI -update")
	}
}

// listing collects one line for each exported name of a package.
type listing struct {
	t     *testing.T
	fset  *token.FileSet
	pkg   string
	lines []string
}

// add writes a name of the package and what is printed of the nodes behind it.
func (l *listing) add(what string, nodes ...any) {
	var b bytes.Buffer
	for _, n := range nodes {
		b.WriteByte(' ')
		require.NoError(l.t, printer.Fprint(&b, l.fset, n))
	}
	l.lines = append(l.lines, fmt.Sprintf("%s: %s\n", l.pkg, strings.Join(strings.Fields(what+b.String()), " ")))
}

func (l *listing) file(f *ast.File) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			l.function(d, "")
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					l.named(f, s, s.Name.Name)
				case *ast.ValueSpec:
					for i, name := range s.Names {
						if !name.IsExported() {
							continue
						}
						var nodes []any
						if s.Type != nil {
							nodes = append(nodes, s.Type)
						}
						if d.Tok == token.CONST && i < len(s.Values) { // a constant is its value
							nodes = append(nodes, s.Values[i])
						}
						l.add(d.Tok.String()+" "+name.Name+" ", nodes...)
					}
				}
			}
		}
	}
}

// function lists a function, or a method of an exported type; alias, if not empty, is the
// name of the type here.
func (l *listing) function(d *ast.FuncDecl, alias string) {
	if !d.Name.IsExported() || !exportedReceiver(d) {
		return
	}
	signature := &ast.FuncDecl{Name: d.Name, Type: d.Type}
	if d.Recv == nil {
		l.add("", signature)
		return
	}
	name := alias
	if alias == "" {
		name = receiver(d).Name
	}
	if _, pointer := d.Recv.List[0].Type.(*ast.StarExpr); pointer {
		name = "*" + name
	}
	l.add("("+name+") ", signature)
}

// named lists a type under a name, with what is exported of its fields or methods. A name
// for a type of an internal package is that type.
func (l *listing) named(f *ast.File, s *ast.TypeSpec, name string) {
	if !ast.IsExported(name) {
		return
	}
	if sel, ok := s.Type.(*ast.SelectorExpr); ok && s.Assign.IsValid() {
		for _, imp := range f.Imports {
			folder := strings.TrimPrefix(strings.Trim(imp.Path.Value, `"`), module+"/")
			if !strings.HasPrefix(folder, "internal/") || !refers(imp, sel.X.(*ast.Ident).Name) {
				continue
			}
			l.behind(folder, sel.Sel.Name, name)
			return
		}
	}
	var members *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		l.add("type " + name + " struct")
		members = typ.Fields
	case *ast.InterfaceType:
		l.add("type " + name + " interface")
		members = typ.Methods
	default:
		l.add("type "+name+" ", s.Type)
		return
	}
	for _, m := range members.List {
		if len(m.Names) == 0 {
			l.add("type "+name+" has ", m.Type)
		}
		for _, n := range m.Names {
			if n.IsExported() {
				l.add("type "+name+" has "+n.Name+" ", m.Type)
			}
		}
	}
}

func refers(imp *ast.ImportSpec, name string) bool {
	if imp.Name != nil {
		return imp.Name.Name == name
	}
	return path.Base(strings.Trim(imp.Path.Value, `"`)) == name
}

// behind lists the type of an internal package that has another name here.
func (l *listing) behind(folder, typ, name string) {
	entries, err := os.ReadDir(folder)
	require.NoError(l.t, err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(l.fset, path.Join(folder, e.Name()), nil, parser.SkipObjectResolution)
		require.NoError(l.t, err)
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && receiver(d).Name == typ {
					l.function(d, name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.Name == typ {
						l.named(f, s, name)
					}
				}
			}
		}
	}
}
