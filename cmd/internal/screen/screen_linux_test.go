// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package screen_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/cmd/privopt/cli"
	"github.com/privopt/privopt/internal/testkit"
)

// TestMain makes the test binary the command privopt, if a test starts it as a process.
func TestMain(m *testing.M) {
	if os.Getenv("PRIVOPT_TEST_MAIN") != "" {
		cli.Main(cli.Run)
	}
	var err error
	if bin, err = os.MkdirTemp("", "privopt-screen-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(bin)
	os.Exit(code)
}

var bin string // a folder

// program returns the file of a command, which is this process or is built into the folder bin.
func program(t *testing.T, name string) string {
	t.Helper()
	if name == "privopt" {
		self, err := os.Executable()
		require.NoError(t, err)
		return self
	}
	path := filepath.Join(bin, name)
	if _, err := os.Stat(path); err != nil {
		out, err := exec.Command("go", "-C", "../../"+name, "build", "-o", path, ".").CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return path
}

// terminal opens a pseudo-terminal: what is written to tty is read from screen. A system without
// pseudo-terminals skips the test.
func terminal(t *testing.T, columns, lines uint16) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system has no pseudo-terminals: ", err)
	}
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip("this system has no pseudo-terminals: ", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: lines, Col: columns}))
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this system has no pseudo-terminals: ", err)
	}
	return screen, tty
}

// started starts a command in a terminal.
func started(t *testing.T, dir string, tty *os.File, args []string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t, args[0]), args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = append(os.Environ(), "PRIVOPT_TEST_MAIN=1", "TERM=xterm", "NO_COLOR=")
	require.NoError(t, cmd.Start())
	return cmd
}

// inTerminal runs a command in a terminal and returns what it shows.
func inTerminal(t *testing.T, dir string, columns uint16, args []string) string {
	t.Helper()
	screen, tty := terminal(t, columns, 24)
	defer screen.Close()
	cmd := started(t, dir, tty, args)
	tty.Close()
	var b bytes.Buffer
	io.Copy(&b, screen) // it ends with an error once the command closes the terminal
	cmd.Wait()          // the exit code of a refusal is not 0
	return strings.ReplaceAll(b.String(), "\r\n", "\n")
}

const peopleSchema = `{ "schema": 1, "records": 40, "intercept": true,
  "label": {"column": "pays", "positive": ["yes"], "negative": ["no"]},
  "columns": [ {"name": "age", "min": 20, "max": 80},
    {"name": "occupation of the household", "other": true,
     "levels": ["nurse", "Hausmeister", "a pilot of large machines"]} ] }`

// shown lists commands, in an order in which they find their files. Those after long are of
// programs that have to be built.
var shown = strings.Split(strings.TrimSpace(`
privopt -h
privopt schema -h
privopt schema --public t.csv --label pays --records 40 --out s.json --force
privopt plan -h
privopt plan --schema people.json --epsilon 1
privopt plan --schema people.json --epsilon 1 --intervals
privopt pack -h
privopt fit -h
privopt ledger -h
privopt ledger create -h
privopt ledger show -h
privopt ledger verify -h
privopt ledger create l --epsilon 90 --delta 1e-3
privopt fit --schema people.json --data t.csv --epsilon 3 --seed 1 --intervals --out m.json --force
privopt fit --schema people.json --data t.csv --epsilon 2 --delta 1e-5 --ledger l --out n.json --force
privopt fit --schema people.json --data t.csv --epsilon 3 --seed 1 -v --out v.json --force
privopt pack --schema people.json --data t.csv --out t.npy --force
privopt ledger show l
privopt ledger verify l n.json
privopt predict -h
privopt predict --model m.json --data t.csv
privopt score -h
privopt score --model m.json --data t.csv
privopt score --model m.json --data t.csv --epsilon 4 --seed 1
privopt plan --score --model m.json --epsilon 1 --records 40
privopt summary -h
privopt summary m.json
privopt summary n.json
privopt explain -h
privopt explain m.json
privopt version
privopt completion -h
privopt fit --schema people.json --data nosuch.csv --epsilon 1 --out x.json
privopt fit --epsilom 1 --schema people.json --data nosuch.csv --epsilon 1 --out x.json
long research -h
long research audit -h
long research audit -list -mechanism lop
long research audit -mechanism enclosure
long research audit -mechanism lop-clip
long research audit -sabotage noise-0.5
long research run -h
long research run
long research run lowbits -small -out p
long research results -h
long research rnu
long scaling -h
long scaling -n 20 -d 3 -kappas 2 -runs 2 -seed 1 -formats csv -out s -force
`), "\n")

// bars matches a progress bar: the lines that it draws over one another, and the last one. Its
// words depend on how long something took.
var bars = regexp.MustCompile(`[^\n]*\r(?:\x1b\[K)?|[^\n]*% \|[^\n]*\| \([^\n]*`)

// volatile matches numbers, with units of time: noise and seconds differ from run to run.
var volatile = regexp.MustCompile(`[0-9][0-9.]*(?:e[-+]?[0-9]+)?(?:(?:ns|µs|ms|s|m|h)\b)?`)

// TestTerminal runs the commands in terminals of two widths: no line is wider than the terminal,
// and no word is broken, which means that it also stands in a terminal of 1000 columns.
func TestTerminal(t *testing.T) {
	dir := t.TempDir()
	table := "age,occupation of the household,pays\n"
	for i := range 40 {
		table += fmt.Sprintf("%d,%s,%s\n", 20+i, []string{"nurse", "Hausmeister", "a pilot of large machines"}[i%3],
			[]string{"yes", "no"}[i%2])
	}
	for name, text := range map[string]string{"people.json": peopleSchema, "t.csv": table} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	widths := []uint16{1000, 80}
	if testkit.Long() {
		widths = []uint16{1000, 120, 80}
	}
	for _, line := range shown {
		if command, found := strings.CutPrefix(line, "long "); found && !testkit.Long() {
			continue
		} else {
			line = command
		}
		args := strings.Fields(line)
		words, before := map[string]bool{}, dir
		for _, columns := range widths { // each begins with the files of the commands before
			at := t.TempDir()
			require.NoError(t, os.CopyFS(at, os.DirFS(before)))
			if columns == 1000 {
				dir = at
			}
			text := bars.ReplaceAllString(inTerminal(t, at, columns, args), "")
			require.NotEmpty(t, strings.TrimSpace(text), line)
			for _, l := range strings.Split(text, "\n") {
				require.LessOrEqual(t, uniseg.StringWidth(l), int(columns), "%s in %d columns:\n%s", line, columns, l)
			}
			for _, word := range strings.Fields(volatile.ReplaceAllString(text, "")) {
				if columns == 1000 {
					words[word] = true
				} else if word != `\` {
					require.True(t, words[word], "%s in %d columns breaks %q:\n%s", line, columns, word, text)
				}
			}
			if line == "privopt -h" && columns == 80 {
				require.LessOrEqual(t, strings.Count(text, "\n"), 24)
			}
		}
	}
}

// TestInterrupted: Ctrl-C ends a command, which says so on a line of its own. The terminal has
// written ^C on the line before.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "people.json"), []byte(peopleSchema), 0o600))
	ends := map[string]struct {
		typed, last string
		code        int
	}{
		"research audit -tier long": {"", "^audit: .*cancel", sweep.ExitInterrupted},
		"privopt fit --schema people.json --data - --epsilon 1 --out m.json": {"age,occupation of the household,pays\n",
			"^privopt fit: cancelled$", 130},
	}
	if !testkit.Long() {
		delete(ends, "research audit -tier long")
	}
	for line, end := range ends {
		screen, tty := terminal(t, 80, 24)
		defer screen.Close()
		cmd := started(t, dir, tty, strings.Fields(line))
		tty.Close()
		_, err := screen.WriteString(end.typed)
		require.NoError(t, err)
		var b bytes.Buffer
		_, err = io.CopyN(&b, screen, int64(len(end.typed)+6)) // after what was typed, the progress bar is there
		require.NoError(t, err)
		_, err = screen.Write([]byte{3}) // the terminal makes it SIGINT
		require.NoError(t, err)
		io.Copy(&b, screen)
		cmd.Wait()
		require.Equal(t, end.code, cmd.ProcessState.ExitCode(), b.String())
		last := strings.Split(strings.TrimRight(b.String(), "\r\n"), "\r\n")
		require.Regexp(t, end.last, last[len(last)-1], b.String())
	}
}
