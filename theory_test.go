// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// commentLines is the most that the comment of an unexported name may have: what is longer is a
// statement with a link to its proof in docs/theory.
const commentLines = 12

// TestTheoryIsComplete: docs/theory and the code agree. Every identifier of a theorem has one
// section with all its parts, and the other way round; the functions, tests and links that the
// book and the comments name exist; CHANGELOG, docs/mechanisms.md and the list of
// chapters name every identifier.
func TestTheoryIsComplete(t *testing.T) {
	b := readTheory(t, testRoot)
	require.Greater(t, len(b.identifiers), 30)
	for _, fault := range b.faults() {
		t.Error(fault)
	}
	for page, before := range map[string]string{
		"CHANGELOG.md": "`", "docs/mechanisms.md": "`", "docs/theory/README.md": "[",
	} {
		text, err := fs.ReadFile(testRoot, page)
		require.NoError(t, err)
		for id, file := range b.identifiers {
			if strings.HasPrefix(id, "ledger.") && page == "docs/mechanisms.md" { // filters are no mechanisms
				continue
			}
			require.Contains(t, string(text), before+id, "%s does not name an identifier of %s", page, file)
		}
	}
}

// TestTheoryRulesBite: each rule of TestTheoryIsComplete finds the one fault of a small module.
func TestTheoryRulesBite(t *testing.T) {
	const chapter = `# A chapter

### <a id="a.lemma"></a>a.lemma: first

**Statement.** One.

**Proof.** Two. ∎

### <a id="p.theorem/1"></a>p.theorem/1: second

**Statement.** By [that one](#a.lemma).

**Conditions.** None.

**Proof.** Three. ∎

**Source.** New here.

**Code.** ` + "`p/p.go`: `kind.method`,\n`Constant`" + `

**Test.** ` + "`p`: `TestP`" + `
`
	const code = `package p
// Constant is in docs/theory/a.md#p.theorem/1.
const Constant = "p.theorem/1"
type kind struct{}
func (*kind) method() {}
`
	module := func(old, with string) fstest.MapFS {
		files := map[string]string{
			"docs/theory/a.md": chapter, "p/p.go": code, "p/p_test.go": "package p\nfunc TestP() {}\n",
			"README.md": "docs/theory/a.md\n",
		}
		out := fstest.MapFS{}
		changed := old == ""
		for name, text := range files {
			changed = changed || strings.Contains(text, old)
			out[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, old, with))}
		}
		require.True(t, changed, old)
		return out
	}
	require.Empty(t, readTheory(t, module("", "")).faults())
	gone := module(code, strings.Replace(code, "p.theorem/1\"", "p.theorem\"", 1))
	gone["docs/theory/withdrawn.md"] = gone["docs/theory/a.md"]
	delete(gone, "docs/theory/a.md")
	faults := strings.Join(readTheory(t, gone).faults(), "\n")
	require.Contains(t, faults, "p.theorem/1 has the parts")
	require.NotContains(t, faults, "no code has")
	for _, c := range []struct{ old, with, want string }{
		{`<a id="p.theorem/1"></a>`, `<a id="p.theorem/2"></a>`, "p.theorem/1 of p/p.go has no section"},
		{`= "p.theorem/1"`, `= "p.theorem/2"`, "no code has the identifier p.theorem/1"},
		{"**Conditions.** None.\n\n", "", "p.theorem/1 has the parts"},
		{"Three. ∎", "Three.", "does not end with ∎"},
		{"[that one](#a.lemma)", "that one", "nothing links to a.lemma"},
		{"(#a.lemma)", "(#a.lemmas)", "no section a.lemmas"},
		{"docs/theory/a.md#p.theorem/1.", "docs/theory/b.md.", "links to docs/theory/b.md"},
		{"docs/theory/a.md\n", "docs/theory.md\n", "links to docs/theory.md"},
		{`id="a.lemma"`, `id="p.theorem/1"`, "p.theorem/1 has two sections"},
		{"`kind.method`", "`kind.methods`", "p/p.go has no kind.methods"},
		{"`p/p.go`", "`p/q.go`", "p/q.go has no kind.method"},
		{"`TestP`", "`TestQ`", "p has no test TestQ"},
		{"`p`: `TestP`", "TestP", "cannot read"},
	} {
		faults := readTheory(t, module(c.old, c.with)).faults()
		require.Contains(t, strings.Join(faults, "\n"), c.want, "%q", c.with)
	}
}

// TestCommentsAreShort: a long comment of an unexported name belongs into docs/theory.
func TestCommentsAreShort(t *testing.T) {
	var long []string
	sources(t, func(name, text string) {
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		declared(f, func(full string, doc *ast.CommentGroup) {
			own := full[strings.LastIndex(full, ".")+1:]
			lines := strings.Count(strings.TrimSpace(doc.Text()), "\n") + 1
			if lines > commentLines && !ast.IsExported(own) {
				long = append(long, name+": "+full)
			}
		})
	})
	slices.Sort(long)
	require.Empty(t, long)
}

// withdrawn is the chapter of the theorems that no code has any more.
const withdrawn = "withdrawn.md"

// theory is the book and what the code says about it.
type theory struct {
	sections    map[string]section
	identifiers map[string]string          // of theorems in the code, with a file that has each
	links       map[string][]string        // by target, with #anchor or without: where they stand
	names       map[string]map[string]bool // declared in each file
	tests       map[string]map[string]bool // of each folder
	chapters    []string
	doubled     []string
}

// section is what stands below an anchor.
type section struct {
	chapter string
	parts   []string
	text    map[string]string
}

var (
	theoremName = regexp.MustCompile(`^"[a-z]+\.[a-z0-9-]+/[0-9]+"$`)
	theoryLink  = regexp.MustCompile(`docs/theory(?:\.md|/[a-z-]+\.md(?:#[A-Za-z0-9./-]*[A-Za-z0-9])?)`)
	bookLink    = regexp.MustCompile(`\]\(([a-z-]+\.md)?(?:#([^)\s]+))?\)`)
	heading     = regexp.MustCompile(`(?m)^#{1,3} (?:<a id="([^"]+)"></a>)?.*$`)
	partOf      = regexp.MustCompile(`(?m)^\*\*(Statement|Conditions|Proof|Source|Code|Test)\.\*\*`)
	reference   = regexp.MustCompile("^`([^`]+)`: (`[^`]+`(?:, `[^`]+`)*)$")
)

// readTheory reads the book and the code below root.
func readTheory(t *testing.T, root fs.FS) *theory {
	t.Helper()
	b := &theory{
		sections: map[string]section{}, identifiers: map[string]string{}, links: map[string][]string{},
		names: map[string]map[string]bool{}, tests: map[string]map[string]bool{},
	}
	require.NoError(t, fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || name == "CHANGELOG.md" || name == "theory_test.go" || path.Ext(name) != ".go" &&
			path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		for _, l := range theoryLink.FindAllString(string(text), -1) {
			b.links[l] = append(b.links[l], name)
		}
		switch {
		case path.Dir(name) == "docs/theory":
			b.read(path.Base(name), string(text))
		case path.Ext(name) == ".go":
			b.parse(t, name, text)
		}
		return err
	}))
	return b
}

// read takes in a chapter.
func (b *theory) read(chapter, text string) {
	b.chapters = append(b.chapters, "docs/theory/"+chapter)
	for _, m := range bookLink.FindAllStringSubmatch(text, -1) {
		to := "docs/theory/" + cmp.Or(m[1], chapter)
		if m[2] != "" {
			to += "#" + m[2]
		}
		b.links[to] = append(b.links[to], "docs/theory/"+chapter)
	}
	at := heading.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		if m[2] < 0 {
			continue
		}
		id, end := text[m[2]:m[3]], len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		if _, ok := b.sections[id]; ok {
			b.doubled = append(b.doubled, id)
		}
		body := text[m[1]:end]
		s := section{chapter: chapter, text: map[string]string{}}
		begin := partOf.FindAllStringSubmatchIndex(body, -1)
		for j, p := range begin {
			stop := len(body)
			if j+1 < len(begin) {
				stop = begin[j+1][0]
			}
			part := body[p[2]:p[3]]
			s.parts = append(s.parts, part)
			s.text[part] = strings.TrimSpace(body[p[1]:stop])
		}
		b.sections[id] = s
	}
}

// parse takes in a Go file.
func (b *theory) parse(t *testing.T, name string, text []byte) {
	f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	names, of := map[string]bool{}, b.tests[path.Dir(name)]
	test := strings.HasSuffix(name, "_test.go")
	if of == nil {
		of = map[string]bool{}
		b.tests[path.Dir(name)] = of
	}
	declared(f, func(full string, _ *ast.CommentGroup) {
		names[full] = true
		of[full] = of[full] || test
	})
	b.names[name] = names
	if test {
		return
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.BasicLit); ok && theoremName.MatchString(v.Value) {
			b.identifiers[strings.Trim(v.Value, `"`)] = name
		}
		return true
	})
}

// faults returns what is wrong, in words.
func (b *theory) faults() (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, id := range b.doubled {
		add("%s has two sections", id)
	}
	for id, file := range b.identifiers {
		if _, ok := b.sections[id]; !ok {
			add("%s of %s has no section in docs/theory", id, file)
		}
	}
	whole := []string{"Statement", "Conditions", "Proof", "Source", "Code", "Test"}
	for id, s := range b.sections {
		theorem, gone := strings.Contains(id, "/"), s.chapter == withdrawn
		want := whole
		switch {
		case theorem && gone:
			want = []string{"Statement", "Conditions", "Proof", "Source"}
		case !theorem:
			want = slices.DeleteFunc(slices.Clone(whole), func(p string) bool {
				return p != "Statement" && p != "Proof" && !slices.Contains(s.parts, p)
			})
		}
		if !slices.Equal(want, s.parts) {
			add("%s has the parts %v, want %v", id, s.parts, want)
		}
		if !strings.Contains(s.text["Proof"], "∎") {
			add("the proof of %s does not end with ∎", id)
		}
		switch file, ok := b.identifiers[id]; {
		case theorem && !ok && !gone:
			add("no code has the identifier %s", id)
		case ok && gone:
			add("%s has the identifier %s, which is withdrawn", file, id)
		}
		if !theorem && len(b.links["docs/theory/"+s.chapter+"#"+id]) == 0 {
			add("nothing links to %s", id)
		}
		faults = append(faults, b.named(id, s)...)
	}
	for to, from := range b.links {
		chapter, id, anchored := strings.Cut(to, "#")
		switch s, ok := b.sections[id]; {
		case !slices.Contains(b.chapters, chapter):
			add("%s links to %s", from[0], to)
		case anchored && (!ok || "docs/theory/"+s.chapter != chapter):
			add("%s links to %s, which has no section %s", from[0], chapter, id)
		}
	}
	slices.Sort(faults)
	return faults
}

// named returns the functions and tests of a section that do not exist.
func (b *theory) named(id string, s section) (faults []string) {
	each := func(part string, visit func(in, name string)) {
		text, _, _ := strings.Cut(s.text[part], "\n\n")
		text = strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
		if text == "" {
			return
		}
		for _, group := range strings.Split(text, "; ") {
			m := reference.FindStringSubmatch(group)
			if m == nil {
				faults = append(faults, fmt.Sprintf("cannot read %q in **%s.** of %s", group, part, id))
				continue
			}
			for _, name := range strings.Split(m[2], ", ") {
				visit(m[1], strings.Trim(name, "`"))
			}
		}
	}
	each("Code", func(file, name string) {
		if !b.names[file][name] {
			faults = append(faults, fmt.Sprintf("%s has no %s, which %s names", file, name, id))
		}
	})
	each("Test", func(dir, name string) {
		if !b.tests[dir][name] {
			faults = append(faults, fmt.Sprintf("%s has no test %s, which %s names", dir, name, id))
		}
	})
	return faults
}

// declared calls visit with every name that f declares outside of functions, methods with
// their type before them, and its comment.
func declared(f *ast.File, visit func(full string, doc *ast.CommentGroup)) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			full := d.Name.Name
			if d.Recv != nil {
				full = receiver(d).Name + "." + full
			}
			visit(full, d.Doc)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					visit(s.Name.Name, oneOf(s.Doc, d))
				case *ast.ValueSpec:
					for _, name := range s.Names {
						visit(name.Name, oneOf(s.Doc, d))
					}
				}
			}
		}
	}
}

// oneOf returns the comment of a specification: its own, or that of a declaration of one.
func oneOf(doc *ast.CommentGroup, d *ast.GenDecl) *ast.CommentGroup {
	if doc == nil && len(d.Specs) == 1 {
		return d.Doc
	}
	return doc
}
