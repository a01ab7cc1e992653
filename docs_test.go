// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt"
	"github.com/privopt/privopt/internal/testkit"
)

var (
	inline  = regexp.MustCompile("(?s)`([^`]+)`")
	block   = regexp.MustCompile("(?ms)^```(?:sh|console|bash)\n(.*?)^```$")
	page    = regexp.MustCompile(`(?m)^//\t((?:[A-Z_]+=\S+ )*(?:go|bash|privopt) [^…\n]*)$`)
	program = regexp.MustCompile(
		`^(?:[A-Z_]+=\S+ )*(?:go (?:-C (\S+) )?(run|test|build|install|get)|(bash|privopt)) `)
)

// documented returns the commands that the documentation shows in code spans, in indented lines and
// in blocks of a shell, and those that package pages show in indented lines, by file.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	commands := map[string][]string{}
	files, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir("docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			files = append(files, name)
		}
		return err
	}))
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		add := func(line string) {
			line, _, _ = strings.Cut(line, " #")
			line = strings.Join(strings.Fields(strings.TrimPrefix(line, "$ ")), " ")
			if program.MatchString(line) && !strings.Contains(line, "…") {
				commands[file] = append(commands[file], line)
			}
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			for _, line := range strings.Split(m[1], "\n") {
				add(line)
			}
		}
		rest := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(text), "")
		for _, line := range strings.Split(rest, "\n") {
			if strings.HasPrefix(line, "    ") {
				add(strings.TrimSpace(line))
			}
		}
		for _, m := range inline.FindAllStringSubmatch(rest, -1) {
			add(m[1])
		}
	}
	sources(t, func(file, text string) {
		for _, m := range page.FindAllStringSubmatch(text, -1) {
			if line, _, _ := strings.Cut(m[1], "  "); program.MatchString(line) { // before what it does
				commands[file] = append(commands[file], line)
			}
		}
	})
	return commands
}

// TestCommands: the programs know the flags and values of every command in the documentation,
// and its tests, packages and scripts exist. With PRIVOPT_DEEP the programs run as they stand. The
// tests of cmd/privopt/cli run the commands of privopt. Those of the laboratory, which is a module
// of its own, need PRIVOPT_LONG.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds every command")
	}
	bin := t.TempDir()
	build := func(module, packages string) {
		out, err := exec.Command("go", "-C", module, "build", "-o", bin+string(filepath.Separator), packages).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	build(".", "./cmd/...")
	if testkit.Long() {
		build("cmd/research", ".")
	}
	var tests []string
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)
	sources(t, func(_, text string) {
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			tests = append(tests, m[1])
		}
	})
	all := documented(t)
	require.NotEmpty(t, all["README.md"])
	for file, commands := range all {
		for _, command := range commands {
			t.Run(file+"/"+command, func(t *testing.T) {
				m := program.FindStringSubmatch(command)
				words, module := strings.Fields(command[len(m[0]):]), m[1]
				for _, w := range words {
					if strings.HasPrefix(w, "./") && !strings.HasSuffix(w, "...") {
						_, err := os.Stat(filepath.Join(module, w))
						require.NoError(t, err)
					}
				}
				switch m[2] + m[3] {
				case "run":
					place := filepath.ToSlash(filepath.Join(module, words[0]))
					if module != "" && (place != "cmd/research" || !testkit.Long()) {
						t.Skip("a command of another module")
					}
					require.Regexp(t, `^cmd/`, place, "want a command of this repository")
					path := filepath.Join(bin, filepath.Base(place))
					helps(t, path, words[1:])
					if strings.HasSuffix(file, ".md") {
						runs(t, path, words[1:])
					}
				case "privopt":
					if !strings.ContainsAny(command, "|<>$(") { // the walkthroughs, which the tests of cmd/privopt/cli run
						helps(t, filepath.Join(bin, "privopt"), words)
					}
				case "test":
					if i := strings.Index(command, "-run "); i >= 0 {
						name := regexp.MustCompile(strings.Trim(strings.Fields(command[i:])[1], `'"`))
						require.True(t, slices.ContainsFunc(tests, name.MatchString), "no such test")
					}
				case "bash":
					_, err := os.Stat(words[0])
					require.NoError(t, err)
				}
			})
		}
	}
}

// TestTwentyNames: the page of the root package lists twenty names, which exist.
func TestTwentyNames(t *testing.T) {
	page, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, list, ok := strings.Cut(string(page), "# The twenty names you need")
	require.True(t, ok)
	list, _, _ = strings.Cut(list, "// # ")
	api, err := os.ReadFile("api.txt")
	require.NoError(t, err)
	names := regexp.MustCompile(`(?m)^//\t(\w+)\.(\w+)`).FindAllStringSubmatch(list, -1)
	require.Len(t, names, 20)
	for _, m := range names {
		exists := `(?m)^(?:[a-z/]+/)?` + m[1] + `: (?:func|type) ` + m[2] + `\b`
		if m[1] == "Ledger" {
			exists = `(?m)^dp/ledger: \(\*Ledger\) func ` + m[2] + `\b`
		}
		require.Regexp(t, exists, string(api))
	}
}

// helps asks a program for help behind the arguments, which it has to understand first.
func helps(t *testing.T, path string, args []string) {
	t.Helper()
	out, err := exec.Command(path, append(args[:len(args):len(args)], "--help")...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// runs runs a program as documented, with PRIVOPT_DEEP.
func runs(t *testing.T, path string, args []string) {
	t.Helper()
	if !testkit.Deep() || strings.Contains(strings.Join(args, " "), "FILE") {
		return
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = t.TempDir()
	for _, name := range []string{"adult.data", "adult.test"} {
		if !strings.Contains(strings.Join(args, " "), name) {
			continue
		}
		data := filepath.Join(os.Getenv("PRIVOPT_DATA"), "adult", name)
		if _, err := os.Stat(data); err != nil {
			t.Skip("needs adult.data and adult.test in the folder adult of PRIVOPT_DATA")
		}
		require.NoError(t, os.Symlink(data, filepath.Join(cmd.Dir, name)))
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestVersion: README.md, the last release in CHANGELOG.md and the programs state one version.
func TestVersion(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "This is version "+privopt.Version+".")
	changelog, err := os.ReadFile("CHANGELOG.md")
	require.NoError(t, err)
	release := regexp.MustCompile(`(?m)^## ([0-9.]+) `).FindStringSubmatch(string(changelog))
	require.Equal(t, privopt.Version, release[1])
}

// TestReadme: README is one screen and a half, fits a terminal, and its program is the Example of
// the root package.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(readme), "\n"), "\n")
	require.LessOrEqual(t, len(lines), 120)
	for _, line := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 100, line)
	}
	programs := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	require.Len(t, programs, 1)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	body := regexp.MustCompile(`(?ms)^func Example\(\) \{\n(.*?)^\t// Output:`).FindStringSubmatch(string(example))
	require.NotNil(t, body)
	require.Equal(t, strings.ReplaceAll("\n"+body[1], "\n\t", "\n"), "\n"+programs[0][1])
}
