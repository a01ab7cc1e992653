// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// race is the child of the races: for every line, the name of a ledger, it opens the ledger, says
// so, waits for the next line, and tries to spend ε = 1 a random moment after it.
func race(in *bufio.Scanner) {
	for in.Scan() {
		l, err := Open(in.Text())
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		in.Scan()
		time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		switch _, err := l.Spend(ctx, costs(1, 0), nil); {
		case err == nil:
			fmt.Println("spent")
		case errors.Is(err, ErrOverspent):
			fmt.Println("refused")
		default:
			panic(err)
		}
	}
}

// racer is such a child.
type racer struct {
	in  io.Writer
	out *bufio.Scanner
}

func racers(t *testing.T, n int) []racer {
	children := make([]racer, n)
	for i := range children {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "LEDGER_TEST_RACER=1")
		child.Stderr = os.Stderr
		in, err := child.StdinPipe()
		require.NoError(t, err)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		t.Cleanup(func() { in.Close(); child.Wait() })
		children[i] = racer{in, bufio.NewScanner(out)}
	}
	return children
}

// spend lets the racers spend at once, each under the next one of the names, and returns how
// many could.
func spend(t *testing.T, all []racer, names []string) (spent int) {
	t.Helper()
	for i, r := range all {
		fmt.Fprintln(r.in, names[i%len(names)])
	}
	say := func(r racer) string {
		require.True(t, r.out.Scan(), "a child has ended")
		return r.out.Text()
	}
	for _, r := range all {
		require.Equal(t, "ready", say(r))
	}
	for _, r := range all {
		fmt.Fprintln(r.in, "go")
	}
	for _, r := range all {
		if say(r) == "spent" {
			spent++
		}
	}
	return spent
}

// named returns a new ledger and further names of it: by a symbolic link, a hard link, a link to
// its folder, and a detour.
func named(t *testing.T, total float64) (path string, names []string) {
	l := create(t, Terms{Total: dp.Budget{Epsilon: total}})
	path = l.Path()
	dir := t.TempDir()
	soft, hard, folder := filepath.Join(dir, "soft"), filepath.Join(dir, "hard"), filepath.Join(dir, "folder")
	if os.Symlink(path, soft) != nil || os.Link(path, hard) != nil || os.Symlink(filepath.Dir(path), folder) != nil {
		t.Skip("this file system has no links")
	}
	return path, []string{soft, hard, filepath.Join(folder, filepath.Base(path)),
		filepath.Dir(path) + "/./" + filepath.Base(path)}
}

// Two processes that know a ledger by different names never spend its total twice.
func TestTwoNames(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 100
	}
	two := racers(t, 2)
	for round := range rounds {
		path, names := named(t, 1)
		pair := []string{path, names[round%2]} // by a symbolic link, by a hard link
		require.Equal(t, 1, spend(t, two, pair), "round %d", round)
		l, err := Open(path)
		require.NoError(t, err)
		require.Len(t, l.Entries(), 1)
	}
}

// Sixteen processes under five names get the total of three, and no more.
func TestSixteenProcesses(t *testing.T) {
	all := racers(t, 16)
	for range 5 {
		path, names := named(t, 3)
		require.Equal(t, 3, spend(t, all, append(names, path)))
		l, err := Open(path)
		require.NoError(t, err)
		require.Len(t, l.Entries(), 3)
		for i, e := range l.Entries() {
			for _, other := range l.Entries()[:i] {
				require.NotEqual(t, e.Nonce, other.Nonce)
			}
		}
	}
}

// A name that leads to another file between lock and writing: the other file is not written, and a
// waiting process starts anew with it.
func TestExchangedFile(t *testing.T) {
	first, _ := named(t, 1)
	second, _ := named(t, 1)
	path := filepath.Join(t.TempDir(), "name")
	lead := func(to string) {
		require.NoError(t, os.Symlink(to, path+".new"))
		require.NoError(t, os.Rename(path+".new", path))
	}
	lead(first)
	locked, release, err := tryLock(path)
	require.NoError(t, err)
	lead(second)
	require.Nil(t, reopen(path, locked), "the lock is one of another file")
	lead(first)
	f := reopen(path, locked)
	require.NotNil(t, f)
	require.NoError(t, f.Close())
	require.NoError(t, os.Remove(path))
	require.Nil(t, reopen(path, locked))
	lead(first)

	l, err := Open(path)
	require.NoError(t, err)
	done := make(chan error)
	go func() {
		_, err := l.Spend(ctx, costs(1, 0), nil)
		done <- err
	}()
	lead(second)
	require.NoError(t, release())
	// l has read the first ledger: the second one lacks what it knows.
	require.ErrorIs(t, <-done, ErrBehind)
	for _, p := range []string{first, second} {
		l, err := Open(p)
		require.NoError(t, err)
		require.Empty(t, l.Entries())
	}
}

// A lock that is never released ends with the context, and a ledger that is gone with its name.
func TestLockWaits(t *testing.T) {
	path, names := named(t, 1)
	_, release, err := tryLock(path)
	require.NoError(t, err)
	l, err := Open(names[1])
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = l.Spend(short, costs(1, 0), nil)
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, release())
	require.NoError(t, os.Remove(names[1]))
	_, err = l.Spend(ctx, costs(1, 0), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no file to lock")
}
