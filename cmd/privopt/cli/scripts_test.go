// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// TestScripts runs the scripts of testdata/script, each in a folder with the schemas and tables of
// function folder, and unknown.csv, a table that has no schema. Beside the commands of testscript,
// whose conditions and files they share, lines are
//
//	privopt ARGS…   runs the program, which must succeed; the last may be < FILE
//	fails N ARGS…   runs it, which must end with exit code N and no standard output
//	says TEXT       the words of the standard output have these, whatever the lines; ! says: have not
//	warns TEXT      the same of standard error
func TestScripts(t *testing.T) {
	var chdir sync.Mutex // scripts run in parallel in one process
	run := func(ts *testscript.TestScript, want int, args []string) (stdout string) {
		chdir.Lock()
		defer chdir.Unlock()
		old, err := os.Getwd()
		ts.Check(err)
		ts.Check(os.Chdir(ts.MkAbs(".")))
		stdin := ""
		if n := len(args) - 2; n > 0 && args[n] == "<" {
			stdin, args = ts.ReadFile(args[n+1]), args[:n]
		}
		code, out, errs := call(t, stdin, args...)
		ts.Check(os.Chdir(old))
		_, err = io.WriteString(ts.Stdout(), out)
		ts.Check(err)
		_, err = io.WriteString(ts.Stderr(), errs)
		ts.Check(err)
		if code != want {
			ts.Fatalf("exit code %d, want %d", code, want)
		}
		return out
	}
	has := func(stream string) func(ts *testscript.TestScript, neg bool, args []string) {
		return func(ts *testscript.TestScript, neg bool, args []string) {
			text := flat(ts.ReadFile(stream))
			if want := strings.Join(args, " "); strings.Contains(text, want) == neg {
				ts.Fatalf("%s has, or has not: %s\n%s", stream, want, text)
			}
		}
	}
	dir, err := filepath.Abs("testdata/script")
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			at := folder(t)
			require.NoError(t, os.WriteFile(at("unknown.csv"), []byte(unknownTable(20000)), 0o600))
			return os.CopyFS(e.WorkDir, os.DirFS(at("")))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"privopt": func(ts *testscript.TestScript, _ bool, args []string) { run(ts, exitOK, args) },
			"fails": func(ts *testscript.TestScript, _ bool, args []string) {
				code, err := strconv.Atoi(args[0])
				ts.Check(err)
				if out := run(ts, code, args[1:]); out != "" {
					ts.Fatalf("standard output of a command that failed: %s", out)
				}
			},
			"says": has("stdout"), "warns": has("stderr"),
		},
	})
}
