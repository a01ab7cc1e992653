// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/adult"
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

// shell runs commands in a folder. The command privopt is this test binary.
func shell(t *testing.T, dir, script string) string {
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("this system has no awk")
	}
	bin := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "privopt")))
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

// TestWalkthroughs runs the commands of the walkthroughs exactly as the documentation shows them,
// and checks that their output fits the width of a terminal.
func TestWalkthroughs(t *testing.T) {
	for _, file := range []string{"walkthrough-adult.md", "walkthrough-regression.md", "scale.md"} {
		dir := t.TempDir()
		for name, n := range map[string]int{"adult.data": 32561, "adult.test": 16281} {
			text, err := os.ReadFile(filepath.Join(os.Getenv("PRIVOPT_DATA"), "adult", name))
			if err != nil {
				text = []byte(madeUp(n))
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

// TestModelJSON checks that the Python program in the documentation of the model file makes the
// same predictions as the command.
func TestModelJSON(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("this system has no python3")
	}
	at := folder(t)
	binned := strings.Replace(people, `"max": 80`, `"max": 80, "bins": [30, 47.5, 60]`, 1)
	require.NoError(t, os.WriteFile(at("binned.json"), []byte(binned), 0o600))
	for _, schema := range []string{"people.json", "binned.json"} {
		code, _, errs := call(t, "", "fit", "--schema", at(schema), "--data", at("people.csv"), "--epsilon", "5",
			"--out", at("model.json"), "--force")
		require.Equal(t, 0, code, errs)
		_, out, _ := call(t, "", "predict", "--model", at("model.json"), "--data", at("new.csv"))
		want, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		require.NoError(t, err)
		cmd := exec.Command(python, "-c", fenced(t, "model-json.md", "python")[0])
		cmd.Dir = at("")
		text, err := cmd.CombinedOutput()
		require.NoError(t, err, string(text))
		got := strings.Fields(string(text))
		require.Len(t, got, len(want)-1)
		for i, s := range got {
			u, err := strconv.ParseFloat(s, 64)
			require.NoError(t, err)
			v, err := strconv.ParseFloat(want[i+1][1], 64)
			require.NoError(t, err)
			require.InEpsilon(t, v, u, 1e-5)
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
