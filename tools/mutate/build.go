package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// binaries are the compiled tests with all mutants inside.
type binaries struct {
	mutants []mutant
	tests   []*test
	work    string
}

// test is one test function of a package.
type test struct {
	name, dir string
	plain     string        // binary
	record    string        // the same, recording which mutants are reached
	took      time.Duration // without mutants
	reached   map[int]bool
}

// build rewrites the files and compiles the tests of the packages.
func build(ctx context.Context, work string, files, packages []string) (*binaries, error) {
	dir := filepath.Dir(files[0])
	for _, f := range files {
		if filepath.Dir(f) != dir {
			return nil, fmt.Errorf("%s and %s are in different folders", files[0], f)
		}
	}
	imports, err := exports(ctx, dir)
	if err != nil {
		return nil, err
	}
	out, err := command(ctx, "go", "list", "-f", `{{range .GoFiles}}{{.}}{{"\n"}}{{end}}`, "./"+dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range strings.Fields(out) {
		all = append(all, filepath.Join(dir, name))
	}
	fset := token.NewFileSet()
	p, err := parse(all, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if imports[path] == "" {
			return nil, fmt.Errorf("no export data for %s", path)
		}
		return os.Open(imports[path])
	}))
	if err != nil {
		return nil, err
	}
	b := &binaries{work: work}
	replace := map[string]string{}
	next := 0
	for i, f := range files {
		if p.files[f] == nil {
			return nil, fmt.Errorf("%s is not built here", f)
		}
		mutants, text, err := p.rewriteFile(f, &next)
		if err != nil {
			return nil, err
		}
		b.mutants = append(b.mutants, mutants...)
		path := filepath.Join(work, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
		replace[absolute(f)] = path
	}
	for mode, call := range map[string]string{"plain": "", "record": "mutateReach(id)"} {
		path := filepath.Join(work, "helper_"+mode+".go")
		if err := os.WriteFile(path, fmt.Appendf(nil, helper, p.name, call), 0o600); err != nil {
			return nil, err
		}
		replace[absolute(filepath.Join(dir, "zz_mutate.go"))] = path
		text, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			return nil, err
		}
		overlay := filepath.Join(work, mode+".json")
		if err := os.WriteFile(overlay, text, 0o600); err != nil {
			return nil, err
		}
		for i, pkg := range packages {
			if _, err := command(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o",
				filepath.Join(work, fmt.Sprintf("%s%d.test", mode, i)), pkg); err != nil {
				return nil, err
			}
		}
	}
	for i, pkg := range packages {
		dir, err := command(ctx, "go", "list", "-f", "{{.Dir}}", pkg)
		if err != nil {
			return nil, err
		}
		plain := filepath.Join(work, fmt.Sprintf("plain%d.test", i))
		list, err := command(ctx, plain, "-test.list", "^(Test|Example)")
		if err != nil {
			return nil, err
		}
		for _, name := range strings.Fields(list) {
			b.tests = append(b.tests, &test{name: name, dir: strings.TrimSpace(dir), plain: plain,
				record: filepath.Join(work, fmt.Sprintf("record%d.test", i)), reached: map[int]bool{}})
		}
	}
	return b, nil
}

// exports returns the export data of what a package imports.
func exports(ctx context.Context, dir string) (map[string]string, error) {
	out, err := command(ctx, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", "./"+dir)
	if err != nil {
		return nil, err
	}
	m := map[string]string{}
	for line := range strings.Lines(out) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		m[path] = file
	}
	return m, nil
}

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", name, err, out, stderr.Bytes())
	}
	return string(out), nil
}

// baseline runs every test alone without a mutant, notes which mutants it
// reaches and how long it takes, and drops those that take longer than limit.
// It fails if one fails.
func (b *binaries) baseline(ctx context.Context, limit time.Duration) error {
	for i, t := range b.tests {
		start := time.Now()
		out, err := t.exec(ctx, t.plain, []*test{t}, limit)
		if t.took = time.Since(start); t.took >= limit {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s fails without a mutant: %w\n%s", t.name, err, out)
		}
		file := filepath.Join(b.work, fmt.Sprintf("reached%d", i))
		if out, err := t.exec(ctx, t.record, []*test{t}, 10*time.Minute, "MUTATE_RECORD="+file); err != nil {
			return fmt.Errorf("%s fails without a mutant: %w\n%s", t.name, err, out)
		}
		ids, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for k := 0; k+1 < len(ids); k += 2 {
			t.reached[int(ids[k])<<8|int(ids[k+1])] = true
		}
	}
	b.tests = slices.DeleteFunc(b.tests, func(t *test) bool { return t.took >= limit })
	slices.SortStableFunc(b.tests, func(x, y *test) int { return int(x.took - y.took) })
	return nil
}

// together is how long the tests of one process may take; more tests run in another one.
const together = 500 * time.Millisecond

// try returns what killed m, "" if it survived. Quick tests run first and
// together.
func (b *binaries) try(ctx context.Context, m mutant) string {
	var group []*test
	var took time.Duration
	flush := func() string {
		if len(group) == 0 {
			return ""
		}
		limit := 10*took + 5*time.Second
		out, err := group[0].exec(ctx, group[0].plain, group, limit, fmt.Sprintf("MUTATE_ACTIVE=%d", m.id))
		group, took = nil, 0
		if err == nil || ctx.Err() != nil {
			return ""
		}
		if name := failed.FindSubmatch(out); name != nil {
			return string(name[1])
		}
		return "crash or timeout"
	}
	for _, t := range b.tests {
		if !t.reached[m.id] {
			continue
		}
		if len(group) > 0 && (group[0].plain != t.plain || took+t.took > together) {
			if killer := flush(); killer != "" {
				return killer
			}
		}
		group, took = append(group, t), took+t.took
	}
	return flush()
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// exec runs tests of one binary in the package's folder. Memory is bounded,
// because a mutant may allocate without end.
func (t *test) exec(ctx context.Context, binary string, tests []*test, limit time.Duration, env ...string) ([]byte, error) {
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.name
	}
	ctx, cancel := context.WithTimeout(ctx, limit+time.Second)
	defer cancel()
	args := []string{"-test.short", "-test.failfast", "-test.timeout", limit.String(), "-test.run", "^(" + strings.Join(names, "|") + ")$"}
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `ulimit -v 8000000 2>/dev/null; exec "$0" "$@"`, binary}, args...)...)
	cmd.Dir = t.dir
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1", "GOTRACEBACK=none", "RAPID_NOFAILFILE=1"), env...)
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}
