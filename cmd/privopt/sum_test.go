package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
)

// result is what a command gave.
type result struct {
	code int
	errs string
}

// workers runs privopt sum for all shards in this process until the fit ends.
func workers(ctx context.Context, cluster, data string, k int) (wait func() []result) {
	var group sync.WaitGroup
	results := make([]result, k)
	for i := range k {
		group.Go(func() {
			var out, errs bytes.Buffer
			args := []string{"sum", "--cluster", cluster, "--shard", fmt.Sprintf("%d/%d", i+1, k), "--data", data, "--threads", "1"}
			results[i] = result{run(ctx, args, strings.NewReader(""), &out, &errs), errs.String()}
		})
	}
	return func() []result { group.Wait(); return results }
}

// A model whose sums were made by workers is the model of one process, to the byte, but for the assumption that they
// can be trusted.
func TestCluster(t *testing.T) {
	for kind, schema := range kinds {
		t.Run(kind, func(t *testing.T) {
			at := folder(t)
			n, k := 20_000, 2
			if kind == "classes" {
				n = 600
			}
			require.NoError(t, os.WriteFile(at("s.json"), []byte(schema), 0o600))
			require.NoError(t, os.WriteFile(at("large.csv"), []byte(rows(n, true)), 0o600))
			code, _, errs := call(t, "", "pack", "--schema", at("s.json"), "--data", at("large.csv"), "--out", at("p.npy"))
			require.Equal(t, 0, code, errs)
			fit := func(out string, more ...string) string {
				args := append([]string{"fit", "--schema", at("s.json"), "--data", at("p.npy"), "--epsilon", "1", "--seed", "7"}, more...)
				code, _, errs := call(t, "", append(args, "--out", at(out))...)
				require.Equal(t, 0, code, errs)
				return must(os.ReadFile(at(out)))
			}
			want := fit("a.json")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			wait := workers(ctx, at("cluster"), at("p.npy"), k)
			got := fit("b.json", "--cluster", at("cluster"), "--shards", fmt.Sprint(k))
			assumption := fmt.Sprintf("      %q,\n", erm.TrustedCluster)
			require.Contains(t, got, assumption)
			require.Equal(t, want, strings.Replace(got, assumption, "", 1))
			for _, r := range wait() {
				require.Equal(t, result{}, r)
			}
			require.NoDirExists(t, at("cluster"))
		})
	}
}

// Workers that are not those of the fit end it before the ledger is charged; one that fails under way
// ends it without a model.
func TestClusterFailures(t *testing.T) {
	at := folder(t)
	require.NoError(t, os.WriteFile(at("large.csv"), []byte(rows(40_000, true)), 0o600))
	require.NoError(t, os.WriteFile(at("other.csv"), []byte(strings.Replace(rows(40_000, true), "yes", "no", 1)), 0o600))
	for _, name := range []string{"large", "other"} {
		code, _, errs := call(t, "", "pack", "--schema", at("people.json"), "--data", at(name+".csv"), "--out", at(name+".npy"))
		require.Equal(t, 0, code, errs)
	}
	code, _, errs := call(t, "", "ledger", "create", at("l"), "--epsilon", "9", "--delta", "1e-4")
	require.Equal(t, 0, code, errs)
	fit := func(shards, want string, more ...string) {
		t.Helper()
		code, _, errs := call(t, "", append([]string{"fit", "--schema", at("people.json"), "--data", at("large.npy"), "--epsilon", "1",
			"--ledger", at("l"), "--out", at("m.json"), "--cluster", at("cluster"), "--shards", shards, "--wait", "20s"}, more...)...)
		require.Equal(t, exitFailure, code, errs)
		require.Contains(t, errs, want)
		require.NoFileExists(t, at("m.json"))
		require.NoDirExists(t, at("cluster"))
	}
	entries := func() int {
		l, err := ledger.Open(at("l"))
		require.NoError(t, err)
		return len(l.Entries())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	wait := workers(ctx, at("cluster"), at("other.npy"), 1)
	fit("1", "does not have the records of the driver")
	require.Contains(t, wait()[0].errs, "does not have the records of the driver")
	fit("2", "no answer of shards [1 2] of 2", "--wait", "100ms")
	require.Zero(t, entries())

	// The worker's copy is damaged: the greeting does not read records, the first pass does.
	text := []byte(must(os.ReadFile(at("large.npy"))))
	text[len(text)-1] ^= 1
	require.NoError(t, os.WriteFile(at("copy.npy"), text, 0o600))
	require.NoError(t, os.WriteFile(at("copy.npy.json"), []byte(must(os.ReadFile(at("large.npy.json")))), 0o600))
	wait = workers(ctx, at("cluster"), at("copy.npy"), 1)
	fit("1", "its budget counts as spent")
	require.Contains(t, wait()[0].errs, "does not have its checksum")
	require.Equal(t, 1, entries())

	stopped, stop := context.WithCancel(t.Context())
	wait = workers(stopped, at("cluster"), at("large.npy"), 1)
	time.AfterFunc(50*time.Millisecond, stop)
	require.Equal(t, result{exitCancelled, "privopt sum: cancelled\n"}, wait()[0])
}

func TestSumErrors(t *testing.T) {
	at := folder(t)
	code, _, errs := call(t, "", "pack", "--schema", at("people.json"), "--data", at("people.csv"), "--out", at("p.npy"))
	require.Equal(t, 0, code, errs)
	require.NoError(t, os.Mkdir(at("open"), 0o700))
	require.NoError(t, os.Chmod(at("open"), 0o755))
	require.NoError(t, os.WriteFile(at("bare.npy"), []byte(must(os.ReadFile(at("p.npy")))), 0o600))
	require.NoError(t, os.WriteFile(at("bad.sums"), []byte("{}\n00000000\n"), 0o600))
	fit := func(data string, more ...string) []string {
		return append([]string{"fit", "--schema", at("people.json"), "--data", data, "--epsilon", "1", "--out", at("m.json")}, more...)
	}
	before := names(t, at(""))
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "want a .npy file", fit(at("people.csv"), "--cluster", at("c"))},
		{2, "are for --cluster", fit(at("p.npy"), "--shards", "2")},
		{2, "are for --cluster", fit(at("p.npy"), "--wait", "2s")},
		{2, "--data has no .json with checksums", fit(at("bare.npy"), "--cluster", at("c"))},
		{2, "--data has no .json with checksums", []string{"sum", "--cluster", at("c"), "--shard", "1/1", "--data", at("bare.npy")}},
		{2, "--shards 0", fit(at("p.npy"), "--shards", "0", "--cluster", at("c"))},
		{2, "a time above 0", fit(at("p.npy"), "--wait", "0s", "--cluster", at("c"))},
		{1, "open to other users", fit(at("p.npy"), "--cluster", at("open"))},
		{2, `--shard "3/2": want I/K`, []string{"sum", "--cluster", at("c"), "--shard", "3/2", "--data", at("p.npy")}},
		{2, `--shard "1": want I/K`, []string{"sum", "--cluster", at("c"), "--shard", "1", "--data", at("p.npy")}},
		{2, "--threads -1", []string{"sum", "--cluster", at("c"), "--shard", "1/1", "--data", at("p.npy"), "--threads", "-1"}},
		{2, "no such file", []string{"sum", "--cluster", at("c"), "--shard", "1/1", "--data", at("none.npy")}},
		{2, "requires at least 1 arg", []string{"merge", "--out", at("m.sums")}},
		{1, "does not have its checksum", []string{"merge", "--out", at("m.sums"), at("bad.sums")}},
		{2, "exists: choose another name", []string{"merge", "--out", at("bad.sums"), at("bad.sums")}},
		{2, "standard output is no file", []string{"merge", "--out", "-", at("bad.sums")}},
	} {
		code, out, errs := call(t, "", c.args...)
		require.Equal(t, c.code, code, "%v\n%s", c.args, errs)
		require.Contains(t, errs, c.want)
		require.Empty(t, out)
		require.Equal(t, before, names(t, at("")))
	}
}

// Workers without the folder: the task goes to them by hand, and what they write comes back merged.
func TestMergeByHand(t *testing.T) {
	at := folder(t)
	require.NoError(t, os.WriteFile(at("large.csv"), []byte(rows(20_000, true)), 0o600))
	code, _, errs := call(t, "", "pack", "--schema", at("people.json"), "--data", at("large.csv"), "--out", at("p.npy"))
	require.Equal(t, 0, code, errs)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fit := make(chan result)
	go func() {
		var out, errs bytes.Buffer
		args := []string{"fit", "--schema", at("people.json"), "--data", at("p.npy"), "--epsilon", "1", "--out", at("m.json"),
			"--cluster", at("cluster"), "--shards", "2"}
		fit <- result{run(ctx, args, strings.NewReader(""), &out, &errs), errs.String()}
	}()
	for pass := 0; ; pass++ {
		var task []byte
		for task == nil {
			select {
			case r := <-fit:
				require.Equal(t, 0, r.code, r.errs)
				require.Greater(t, pass, 2)
				require.FileExists(t, at("m.json"))
				return
			case <-time.After(time.Millisecond):
				task, _ = os.ReadFile(at("cluster/task"))
			}
		}
		away := filepath.Join(t.TempDir(), "away")
		require.NoError(t, os.Mkdir(away, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(away, "task"), task, 0o600))
		serving, stop := context.WithCancel(ctx)
		wait := workers(serving, away, at("p.npy"), 2)
		sums := []string{filepath.Join(away, "2-of-2.sums"), filepath.Join(away, "1-of-2.sums")}
		require.Eventually(t, func() bool {
			_, a := os.Stat(sums[0])
			_, b := os.Stat(sums[1])
			return a == nil && b == nil
		}, time.Minute, time.Millisecond)
		stop()
		wait()
		code, _, errs := call(t, "", append([]string{"merge", "--out", filepath.Join(away, "all.sums")}, sums...)...)
		require.Equal(t, 0, code, errs)
		require.NoError(t, os.Rename(filepath.Join(away, "all.sums"), at("cluster/all.sums")))
		require.Eventually(t, func() bool {
			now, err := os.ReadFile(at("cluster/task"))
			return err != nil || !bytes.Equal(now, task)
		}, time.Minute, time.Millisecond)
	}
}
