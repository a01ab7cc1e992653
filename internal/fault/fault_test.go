// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package fault

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var scale, ridge = NewStep[float64]("scale"), NewStep[float64]("ridge")

func TestNoFault(t *testing.T) {
	f := From(context.Background())
	require.Nil(t, f)
	require.Equal(t, 2.0, At(f, scale, 2))
	require.Empty(t, f.Missed())
	require.Zero(t, testing.AllocsPerRun(100, func() { At(f, scale, 2) }), "production pays one comparison")
}

func TestWith(t *testing.T) {
	ctx := With(context.Background(), scale, func(s float64) float64 { return s / 2 })
	inner := With(ctx, Iterations, func(int) int { return 3 })
	f := From(inner)
	require.Equal(t, []string{"iterations", "scale"}, f.Missed())
	require.Equal(t, 1.0, At(f, scale, 2))
	require.Equal(t, []string{"iterations"}, f.Missed())
	require.Equal(t, 3, At(f, Iterations, 0))
	require.Empty(t, f.Missed())
	require.Equal(t, 5.0, At(f, ridge, 5), "not replaced")
	require.Empty(t, From(ctx).Missed(), "reached through the inner context")
	require.Equal(t, []string{"scale"},
		From(With(context.Background(), scale, func(s float64) float64 { return s })).Missed())
	require.Equal(t, 3.0, At(From(With(ctx, scale, func(s float64) float64 { return s + 1 })), scale, 4),
		"after the first")
	var none context.Context
	require.Panics(t, func() { From(none) }, "a bug in the call")

	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				At(f, scale, 1)
				f.Missed()
			}
		})
	}
	wg.Wait()
}

// setters returns the places where a file uses With of this package, by the
// name under which it imports it, or hides it behind a dot import.
func setters(fset *token.FileSet, file *ast.File) (found []string) {
	name := ""
	for _, imp := range file.Imports {
		if path, _ := strconv.Unquote(imp.Path.Value); path == "github.com/privopt/privopt/internal/fault" {
			name = "fault"
			if imp.Name != nil {
				name = imp.Name.Name
			}
			if name == "." {
				found = append(found, fset.Position(imp.Pos()).String())
			}
		}
	}
	if name == "" || name == "_" {
		return found
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "With" {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == name {
				found = append(found, fset.Position(sel.Pos()).String())
			}
		}
		return true
	})
	return found
}

// TestOnlyAuditSetsFaults reads every file of the module: outside cmd/research/audit
// no code that is shipped can break a step.
func TestOnlyAuditSetsFaults(t *testing.T) {
	fset := token.NewFileSet()
	root := filepath.Join("..", "..")
	files := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() {
			if path != root && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") ||
			filepath.ToSlash(filepath.Dir(rel)) == "cmd/research/audit" {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		require.NoError(t, err)
		files++
		require.Empty(t, setters(fset, file), "only cmd/research/audit and tests may set a fault")
		return nil
	}))
	require.Greater(t, files, 50)
}

// TestSettersBites feeds the rule what it must refuse and what it must allow.
func TestSettersBites(t *testing.T) {
	const imp = `"github.com/privopt/privopt/internal/fault"`
	for src, n := range map[string]int{
		`package p; import ` + imp + `; var x = fault.With`:                            1,
		`package p; import f ` + imp + `; func g() { f.With(nil, f.Iterations, nil) }`: 1,
		`package p; import . ` + imp:                                                   1,
		`package p; import ` + imp + `; var x = fault.At(nil, fault.Iterations, 1)`:    0,
		`package p; import fault "context"; var x = fault.With`:                        0,
		`package p; import _ ` + imp + `; type t struct{ With int }; var x = t{}.With`: 0,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", src, 0)
		require.NoError(t, err)
		require.Len(t, setters(fset, file), n, src)
	}
}
