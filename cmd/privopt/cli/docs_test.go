// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/adult"
	"github.com/privopt/privopt/internal/testkit"
)

// columns is the width of the documentation.
const columns = 100

// fenced returns the code blocks in the given language of a file of the documentation.
func fenced(t *testing.T, file, language string) []string {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", file))
	require.NoError(t, err)
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	require.NotEmpty(t, blocks)
	return blocks
}

// shell runs commands in a folder. The command privopt is this test binary. A command behind "!"
// has to fail, which sh -e alone does not ask for.
func shell(t *testing.T, dir, script string) string {
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("this system has no awk")
	}
	bin := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "privopt")))
	script = regexp.MustCompile(`(?m)^! (.*)$`).ReplaceAllString(script, "if $1; then echo it did not fail; exit 1; fi")
	cmd := exec.Command("sh", "-eu", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PRIVOPT_TEST_MAIN=1", "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// madeUp returns n made-up rows in the format of the Adult data.
func madeUp(n int) string {
	rnd := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	for range n {
		for _, a := range adult.Attributes {
			if a.Levels == nil {
				fmt.Fprintf(&b, "%d, ", rnd.Int64N(int64(*a.Max)+1))
			} else {
				b.WriteString(a.Levels[rnd.IntN(len(a.Levels))] + ", ")
			}
		}
		b.WriteString([]string{"<=50K\n", ">50K\n"}[rnd.IntN(2)])
	}
	return b.String()
}

// walkthroughs are the files of the documentation whose commands make the files that they need.
var walkthroughs = []string{"walkthrough-adult.md", "walkthrough-regression.md", "scale.md"}

// TestWalkthroughs runs the commands of the walkthroughs exactly as the documentation shows them,
// and checks that their output fits the width of a terminal. Without PRIVOPT_LONG the Adult data
// have an eighth of their lines.
func TestWalkthroughs(t *testing.T) {
	for _, file := range walkthroughs {
		dir := t.TempDir()
		for name, n := range map[string]int{"adult.data": 32561, "adult.test": 16281} {
			text, err := os.ReadFile(filepath.Join(os.Getenv("PRIVOPT_DATA"), "adult", name))
			if err != nil {
				text = []byte(madeUp(n))
			}
			if !testkit.Long() {
				lines := bytes.SplitAfter(text, []byte("\n"))
				text = bytes.Join(lines[:len(lines)/8], nil)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		out := shell(t, dir, strings.Join(fenced(t, file, "sh"), ""))
		for _, line := range strings.Split(out, "\n") {
			if !strings.HasPrefix(line, "privopt ") { // an error or warning is one line of any length
				require.LessOrEqual(t, len([]rune(line)), columns, line)
			}
		}
		t.Log(out)
	}
}

// TestModelJSON checks that the programs in the documentation of the model file make the same
// predictions as the command, those whose language is there.
func TestModelJSON(t *testing.T) {
	programs := map[string][]string{}
	if exec.Command("python3", "--version").Run() == nil {
		programs["python"] = []string{"python3", "-c"}
	}
	if exec.Command("Rscript", "-e", "library(jsonlite)").Run() == nil {
		programs["r"] = []string{"Rscript", "-e"}
	}
	if len(programs) == 0 {
		t.Skip("this system has neither python3 nor Rscript with jsonlite")
	}
	at := folder(t)
	bins := func(s string) string { return strings.Replace(s, `"max": 80`, `"max": 80, "bins": [30, 47.5, 60]`, 1) }
	missing := strings.NewReplacer(`"max": 80`, `"max": 80, "missing": true`,
		`"other": true`, `"other": true, "missing": true`)
	reference := strings.NewReplacer(`"other": true`, `"other": true, "reference": "pilot"`)
	text := rows(7, false) + "?,pilot\n30,?\n?,?\n29.9,nurse\n99,actor\n"
	require.NoError(t, os.WriteFile(at("new.csv"), []byte(text), 0o600))
	for k, schema := range []string{people, bins(people), missing.Replace(people), bins(missing.Replace(people)),
		reference.Replace(people), reference.Replace(bins(missing.Replace(people))),
		strings.Replace(bins(people), `60]`, `60], "reference": "<30"`, 1)} {
		require.NoError(t, os.WriteFile(at("s.json"), []byte(schema), 0o600))
		os.Remove(at("model.json"))
		code, _, errs := call(t, "", "fit", "--schema", at("s.json"), "--data", at("people.csv"), "--epsilon", "5",
			"--out", at("model.json"))
		require.Equal(t, 0, code, "%d: %s", k, errs)
		_, out, _ := call(t, "", "predict", "--model", at("model.json"), "--data", at("new.csv"))
		want, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		require.NoError(t, err)
		for language, run := range programs {
			cmd := exec.Command(run[0], run[1], fenced(t, "model-json.md", language)[0])
			cmd.Dir = at("")
			text, err := cmd.CombinedOutput()
			require.NoError(t, err, string(text))
			got := strings.Fields(regexp.MustCompile(`\[\d+\]`).ReplaceAllString(string(text), "")) // R counts its numbers
			require.Len(t, got, len(want)-1, string(text))
			for i, s := range got {
				u, err := strconv.ParseFloat(s, 64)
				require.NoError(t, err)
				v, err := strconv.ParseFloat(want[i+1][1], 64)
				require.NoError(t, err)
				require.InEpsilon(t, v, u, 1e-5, "%s, %d: %v", language, k, want[i+1])
			}
		}
	}
}

// TestDocsWidth checks that the tables in the documentation fit the width of a terminal.
func TestDocsWidth(t *testing.T) {
	for _, file := range []string{"choosing.md", "model-json.md", "schema.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", file))
		require.NoError(t, err)
		for _, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "|") {
				require.LessOrEqual(t, len([]rune(line)), columns, line)
			}
		}
	}
}

// readmeDemo returns README.md, and the numbers of the lines in it that the demonstration printed.
func readmeDemo(t *testing.T) (lines []string, from, to int) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	require.NoError(t, err)
	lines = strings.Split(string(text), "\n")
	from = slices.Index(lines, "```text") + 1
	require.Positive(t, from)
	return lines, from, from + slices.Index(lines[from:], "```")
}

// same reports whether two lines have the same words without the numbers. A coefficient is weak in
// some runs and has numbers in others, by the noise.
func same(a, b string) bool { return slices.Equal(wordsAlone(a), wordsAlone(b)) }

// TestReadmeDemo: the demonstration prints what README shows, in this order, but for numbers; the
// picture shows those of README. With -update README gets the numbers of this run.
func TestReadmeDemo(t *testing.T) {
	lines, from, to := readmeDemo(t)
	home, err := os.Getwd()
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	code, out, errs := call(t, "", "demo")
	require.Equal(t, exitOK, code, errs)
	t.Chdir(home)
	printed, at := strings.Split(out, "\n"), 0
	for i := from; i < to; i++ {
		if lines[i] == "…" {
			continue
		}
		adjacent := i > from && lines[i-1] != "…"
		for at < len(printed) && !same(lines[i], printed[at]) {
			require.False(t, adjacent, "want %q, the demonstration prints %q", lines[i], printed[at])
			at++
		}
		require.Less(t, at, len(printed), "the demonstration does not print %q", lines[i])
		if *update {
			lines[i] = printed[at]
		}
		at++
	}
	picture := filepath.Join("..", "..", "..", "docs", "demo.svg")
	if *update {
		text := []byte(strings.Join(lines, "\n"))
		require.NoError(t, os.WriteFile(filepath.Join("..", "..", "..", "README.md"), text, 0o644))
		require.NoError(t, os.WriteFile(picture, []byte(oddsPicture(t, lines[from:to])), 0o644))
	}
	drawn, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.Equal(t, oddsPicture(t, lines[from:to]), string(drawn))
}

// oddsPicture draws the intervals of the coefficients that a summary lists.
func oddsPicture(t *testing.T, summary []string) string {
	var b strings.Builder
	const left, right, top, step = 190., 600., 70., 44.
	at := func(v float64) float64 { return left + (right-left)*math.Log(v)/math.Log(8) }
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 330" width="760" height="330" `+
		`font-family="sans-serif" font-size="15">`+"\n"+`<rect width="760" height="330" fill="white"/>`+"\n"+
		`<text x="20" y="30" font-size="17">By how much each factor multiplies the odds of another stay `+
		`within 30 days</text>`+"\n")
	for _, v := range []float64{1, 2, 4, 8} {
		fmt.Fprintf(&b, `<path d="M%.1f 55V255" stroke="#bbb"/><text x="%.1f" y="275" text-anchor="middle">%v</text>`+"\n",
			at(v), at(v), v)
	}
	drawn := 0
	for _, f := range []struct {
		name, label string
		unit        float64
	}{{"age", "10 years older", 10}, {"weight", "10 kg heavier", 10}, {"smoker=yes", "smoker", 1},
		{"days", "stayed 5 days longer", 5}} {
		for _, line := range summary {
			cells := strings.Fields(line)
			if len(cells) < 6 || cells[0] != f.name {
				continue
			}
			var odds [3]float64 // estimate and ends of the interval
			for i, j := range []int{2, 4, 5} {
				v, err := strconv.ParseFloat(cells[j], 64)
				require.NoError(t, err)
				odds[i] = math.Exp(f.unit * v)
			}
			y := top + 15 + step*float64(drawn)
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+
				`<path d="M%.1f %.1fH%.1f" stroke="#0072b2" stroke-width="3"/>`+
				`<circle cx="%.1f" cy="%.1f" r="6" fill="#0072b2"/><text x="620" y="%.1f">%.2f to %.2f</text>`+"\n",
				left-15, y+5, f.label, at(odds[1]), y, at(odds[2]), at(odds[0]), y, y+5, odds[1], odds[2])
			drawn++
		}
	}
	require.Equal(t, 4, drawn)
	b.WriteString(`<text x="20" y="312">Made-up patients, ε = 1. Lines: 95 % intervals of sampling and privacy noise ` +
		"together.</text>\n</svg>\n")
	return b.String()
}

// TestReadmeTable runs the commands that README shows for a table of one's own, behind those that
// need the go command.
func TestReadmeTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, blocks, 2)
	script := regexp.MustCompile(`(?m)^go install .*\n`).ReplaceAllString(blocks[1][1], "")
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "privopt-demo"), 0o700))
	writeDemo(t, filepath.Join(dir, "privopt-demo"))
	require.Contains(t, shell(t, dir, script), "all lines of any one person")
	require.FileExists(t, filepath.Join(dir, "privopt-demo", "predictions.csv"))
}

// shownCommands returns the commands that help texts, the package page and the documentation show,
// by the place that shows each, without those that TestWalkthroughs and TestReadmeTable run.
func shownCommands(t *testing.T) map[string]string {
	at := map[string]string{}
	add := func(place, text string) {
		for _, line := range strings.Split(text, "\n") {
			line, _, _ = strings.Cut(strings.TrimLeft(line, "/ \t"), " #")
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "privopt ") || strings.Contains(line, "| privopt ") {
				at[line] = place
			}
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		add(c.CommandPath()+" -h", c.Example)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&app{stdout: io.Discard, stderr: io.Discard}).root())
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "*.md"))
	require.NoError(t, err)
	block := regexp.MustCompile("(?ms)^```(?:sh|console)\n(.*?)^```$|^(?:    |//\t)([^\n]*)$")
	for _, file := range append(files, filepath.Join("..", "main.go")) {
		if slices.Contains(walkthroughs, filepath.Base(file)) {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			add(file, strings.ReplaceAll(m[1], "$ ", "")+"\n"+m[2])
		}
	}
	return at
}

// shownFiles makes the files that shown commands name, in the working directory.
func shownFiles(t *testing.T) {
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	run := func(command string) {
		var out bytes.Buffer
		code := Run(t.Context(), strings.Fields(command), strings.NewReader(""), &out, &out)
		require.Equal(t, exitOK, code, command+out.String())
	}
	income := strings.NewReplacer("pays", "income", "yes", "high", ",no\n", ",low\n", `"no"`, `"low"`)
	table := func(n int, labels bool) string { // with a column of ids
		var b strings.Builder
		for i, line := range strings.Split(strings.TrimSpace(income.Replace(rows(n, labels))), "\n") {
			fmt.Fprintf(&b, "%s,%s\n", []string{fmt.Sprint("P", i), "patient"}[btoi(i == 0)], line)
		}
		return b.String()
	}
	write("people.json", strings.Replace(income.Replace(people), `"columns": [`,
		`"columns": [ {"name": "patient", "ignore": true},`, 1))
	write("people.csv", table(4000, true))
	write("sample.csv", table(100, true))
	write("test.csv", table(400, true))
	write("new.csv", table(7, false))
	write("numbers.csv", "age,income\n30,1\n50,2\n")
	for _, name := range []string{"people.csv", "new.csv"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, err = w.Write(text)
		require.NoError(t, errors.Join(err, w.Close()))
		write(name+".gz", z.String())
	}
	for _, name := range []string{"people.ledger", "test.ledger"} {
		run("ledger create " + name + " --epsilon 8 --delta 1e-4")
	}
	for _, name := range []string{"model.json", "a.json", "b.json"} {
		run("fit --schema people.json --data people.csv --epsilon 1 --ledger people.ledger --out " + name)
	}
	run("score --model model.json --data test.csv --epsilon 1 --out score.json")
	run("pack --schema people.json --data people.csv --out people.npy")
	run("pack --schema people.json --data test.csv --out holdout.npy")
	require.NoError(t, os.Mkdir("models", 0o700))
	require.NoError(t, os.Link("model.json", filepath.Join("models", "model.json")))

	require.NoError(t, os.Mkdir("adult", 0o700)) // of commands that name adult
	write("adult/adult.json", adult.Schema)
	write("adult/adult.data", madeUp(300))
	write("adult/adult.test", madeUp(100))
	run("fit --schema adult/adult.json --data adult/adult.data --epsilon 1 --out adult/model.json")
}

// TestShownCommands runs the commands that help texts show, each in a folder of its own with the
// files that it names.
func TestShownCommands(t *testing.T) {
	commands := shownCommands(t)
	require.Greater(t, len(commands), 30)
	made := t.TempDir()
	t.Chdir(made)
	shownFiles(t)
	written := regexp.MustCompile(`(?:--out |--plot |> |ledger create )(\S+)`)
	for command, place := range commands {
		t.Run(command, func(t *testing.T) {
			dir, from := t.TempDir(), os.DirFS(made)
			if strings.Contains(command, "adult") {
				from = os.DirFS(filepath.Join(made, "adult"))
			}
			require.NoError(t, os.CopyFS(dir, from))
			for _, m := range written.FindAllStringSubmatch(command, -1) {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, m[1])))
				require.NoError(t, os.RemoveAll(filepath.Join(dir, m[1]+".json"))) // the schema beside a .npy file
			}
			if strings.Contains(command, `--delimiter ";" --fields`) { // a file of another form
				_, text, _ := strings.Cut(strings.ReplaceAll(rows(100, true), ",", ";"), "\n")
				require.NoError(t, os.WriteFile(filepath.Join(dir, "sample.csv"), []byte(text), 0o600))
			}
			line, _, redirected := strings.Cut(command, " > ")
			if strings.ContainsAny(line, "|*\"") {
				shell(t, dir, command)
				return
			}
			t.Chdir(dir)
			var out, errs bytes.Buffer
			code := Run(t.Context(), strings.Fields(line)[1:], strings.NewReader(""), &out, &errs)
			require.Equal(t, exitOK, code, "%s shows a command that fails: %s", place, errs.String())
			require.True(t, !redirected || out.Len() > 0)
		})
	}
}

// TestSame: a row of numbers and the row of a weak coefficient are two forms of one line, other
// words and other coefficients are not.
func TestSame(t *testing.T) {
	row := "  (intercept)     -7.95     -9.47       0.74  -10.92   -8.02   <1e-16     90 %"
	for other, want := range map[string]bool{
		"  (intercept)  –  –  –  –  –  –  –  weak":              true,
		"  (intercept)  1.2  0.3  0.1  0.1  0.5  0.0023  >99 %": true,
		"  age  –  –  –  –  –  –  –  weak":                      false,
		"  (intercept)  unknown":                                false,
	} {
		require.Equal(t, want, same(row, other), other)
	}
}
