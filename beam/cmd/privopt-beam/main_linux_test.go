// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/privopt/cli"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/internal/testkit"
)

// boot is a program that starts a worker of prism, and writes down its process. If a file DIR/fatal
// exists, it removes the file and ends itself before the worker connects.
const boot = `#!/bin/sh
id=${1#--id=}; id=${id#\'}; id=${id%%\'}
rm %[1]s/fatal 2>/dev/null && kill -9 $$
echo $$ >> %[1]s/started
exec %[2]s --worker --id="$id" --control_endpoint="${2#*=}" --logging_endpoint="${2#*=}" >/dev/null 2>&1
`

// workers makes jobs of prism start workers that are processes of their own, until the test ends.
// The function that it returns lists the processes so far.
func workers(t *testing.T, dir string) func() []int {
	t.Helper()
	program := filepath.Join(dir, "boot")
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, fmt.Appendf(nil, boot, dir, self), 0o700))
	flags := map[*string]string{
		jobopts.EnvironmentType: "PROCESS", jobopts.EnvironmentConfig: fmt.Sprintf(`{"command": %q}`, program),
		jobopts.WorkerBinary: program, jobopts.Endpoint: "", // a prism of its own
	}
	for p, v := range flags {
		old := *p
		*p = v
		t.Cleanup(func() { *p = old })
	}
	return func() (list []int) {
		b, _ := os.ReadFile(filepath.Join(dir, "started"))
		for _, word := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(word)
			require.NoError(t, err)
			list = append(list, pid)
		}
		return list
	}
}

// phase says what the workers of a fit are about to do, from what stands in its scratch folder.
func phase(scratch string) string {
	tasks, _ := filepath.Glob(filepath.Join(scratch, "privopt-*", "task"))
	parts, _ := filepath.Glob(filepath.Join(scratch, "privopt-*", "part-*.npy"))
	switch {
	case len(tasks) == 0:
		return ""
	case len(parts) == 0:
		return "encode"
	case filepath.Dir(parts[0]) == filepath.Dir(tasks[0]):
		return "order"
	}
	return "pass"
}

// spent returns the number of entries of a ledger.
func spent(t *testing.T, path string) int {
	t.Helper()
	l, err := ledger.Open(path)
	require.NoError(t, err)
	return len(l.Entries())
}

// TestKill kills workers, which are processes of their own, by SIGKILL: before they connect, while
// they encode or put buckets in order, and in passes. The fit ends with the bits of privopt fit and
// one entry in the ledger, or with an error that names the job, and then the ledger has the entry
// only if the passes had begun. Nothing is left in the scratch folder.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.Mkdir(at("scratch"), 0o700))
	form := strings.NewReplacer(`"records": 60000`, `"person": "id", "rows": 3, "records": 9000`,
		`"file": {"multiline": true},`, "").Replace(schema)
	require.NoError(t, os.WriteFile(at("s.json"), []byte(form), 0o600))
	rnd := rand.New(rand.NewPCG(5, 6))
	fit := []string{"--schema", at("s.json"), "--epsilon", "1", "--loss", "svm", "--force", "--scratch", at("scratch"),
		"--pass-timeout", "40s"}
	var all strings.Builder
	for k := range 4 {
		var b strings.Builder
		for range 15_000 {
			fmt.Fprintf(&b, "%d,%d,nurse,%s\n", rnd.IntN(9000), 20+rnd.IntN(60), []string{"yes", "no"}[rnd.IntN(2)])
		}
		name := at(fmt.Sprintf("%d.csv", k))
		require.NoError(t, os.WriteFile(name, []byte("id,age,job,pays\n"+b.String()), 0o600))
		fit = append(fit, "--data", name)
		all.WriteString(b.String())
	}
	require.NoError(t, os.WriteFile(at("all.csv"), []byte("id,age,job,pays\n"+all.String()), 0o600))
	call(t, "fit", "--schema", at("s.json"), "--epsilon", "1", "--loss", "svm", "--seed", "7", "--data", at("all.csv"),
		"--out", at("want.json"))
	create := []string{"ledger", "create", at("l"), "--persons", "--epsilon", "999", "--delta", ".01"}
	require.Zero(t, cli.Run(t.Context(), create, strings.NewReader(""), io.Discard, io.Discard))
	started := workers(t, dir)
	kills := 0
	phases := []string{"pass", "encode", "order", "start"} // an engine waits for a worker that has not connected
	for k, when := range phases[:testkit.Of(1, 2, 4)] {
		for round := range testkit.Of(1, 1, 20) {
			entries := spent(t, at("l"))
			os.Remove(at("m.json"))
			args := append(fit[:len(fit):len(fit)], "--out", at("m.json"), "--seed", "7")
			charged := (round+k)%2 == 1
			if charged {
				args = append(fit[:len(fit):len(fit)], "--out", at("m.json"), "--ledger", at("l"))
			}
			if when == "start" {
				require.NoError(t, os.WriteFile(at("fatal"), nil, 0o600))
			}
			before := len(started())
			over, seen := make(chan bool), make(chan bool)
			go func() {
				defer close(seen)
				wait := time.Duration(rnd.IntN(200)) * time.Millisecond
				for jobs := rnd.IntN(3); when != "start"; time.Sleep(time.Millisecond) {
					select {
					case <-over:
						return
					default:
					}
					list := started()
					if phase(at("scratch")) != when || len(list) == before {
						continue
					}
					if when == "pass" && jobs > 0 { // a later pass
						jobs--
						before = len(list)
						continue
					}
					time.Sleep(wait)
					if syscall.Kill(list[len(list)-1], syscall.SIGKILL) == nil {
						kills++
						return
					}
					before, wait = len(list), 0 // its job ended before
				}
			}()
			code, errs := program(t.Context(), args...)
			close(over)
			<-seen
			left, err := os.ReadDir(at("scratch"))
			require.NoError(t, err)
			require.Empty(t, left)
			entries = spent(t, at("l")) - entries
			t.Logf("%s %d: exit code %d, %d entries, %s", when, round, code, entries, errs)
			if code != 0 {
				require.Equal(t, 1, code, errs)
				require.Contains(t, errs, "failed 3 times")
				require.NoFileExists(t, at("m.json"))
				if strings.Contains(errs, "encoding the table") {
					require.Zero(t, entries, "nothing was released")
				}
				continue
			}
			if charged {
				require.Equal(t, 1, entries)
			} else {
				require.Zero(t, entries)
				requireSame(t, text(t, at("want.json")), text(t, at("m.json")), "all.csv")
			}
		}
	}
	require.Positive(t, kills)
}
