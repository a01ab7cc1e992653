// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// paid spends ε = 0.1 and commits a file of this text.
func paid(t *testing.T, l *Ledger, text string) Entry {
	e, err := l.Spend(ctx, costs(0.1, 0), nil)
	require.NoError(t, err)
	require.NoError(t, l.Commit(ctx, e.Hash, []byte(text)))
	return e
}

func lines(t *testing.T, l *Ledger) [][]byte {
	text, err := os.ReadFile(l.Path())
	require.NoError(t, err)
	return bytes.SplitAfter(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\n'})
}

// resealed returns the lines with all hashes computed anew, as somebody does who writes the whole
// file.
func resealed(t *testing.T, lines ...[]byte) (text []byte) {
	previous := ""
	for _, line := range lines {
		body := line[:bytes.LastIndex(line, []byte(hashMember))]
		line, hash, err := seal(json.RawMessage(string(body)+"}"), previous)
		require.NoError(t, err)
		text, previous = append(text, line...), hash
	}
	return text
}

// A file is that of its entry only if certificate and bytes are those that were paid for.
func TestVerifyFile(t *testing.T) {
	l := create(t, Terms{Total: dp.Budget{Epsilon: 1, Delta: 1e-6}})
	e := paid(t, l, "one")
	c := costs(0.1, 0).c
	require.NoError(t, l.VerifyFile(e.Hash, c, []byte("one")))
	require.NoError(t, l.Verify(e.Hash, l.Head()))
	other, err := Open(l.Path())
	require.NoError(t, err)
	require.NoError(t, other.VerifyFile(e.Hash, c, []byte("one")))
	require.Equal(t, fileDigest([]byte("one")), other.Entries()[0].File)

	refused := func(want string, entry string, change func(c *dp.Certificate), file string) {
		t.Helper()
		c := c
		change(&c)
		err := l.VerifyFile(entry, c, []byte(file))
		require.ErrorIs(t, err, ErrMismatch)
		require.ErrorContains(t, err, want)
	}
	same := func(*dp.Certificate) {}
	refused("claims (ε = 0.01, δ = 0)", e.Hash, func(c *dp.Certificate) { c.Epsilon = 0.01 }, "one")
	refused("claims (ε = 0.1, δ = 1e-09)", e.Hash, func(c *dp.Certificate) { c.Delta = 1e-9 }, "one")
	refused("claims add-remove", e.Hash, func(c *dp.Certificate) { c.Relation = dp.AddRemove }, "one")
	refused(`claims "test/2"`, e.Hash, func(c *dp.Certificate) { c.Theorem = "test/2" }, "one")
	refused("this one was edited", e.Hash, same, "One")
	refused("this one was edited", e.Hash, same, "one\n")

	// The fit ended before its file: charged, and no file belongs to it, until one does.
	died, err := l.Spend(ctx, costs(0.1, 0), nil)
	require.NoError(t, err)
	refused("no file committed", died.Hash, same, "two")
	require.NoError(t, other.Commit(ctx, died.Hash, []byte("two")), "by another process")
	require.NoError(t, l.VerifyFile(died.Hash, c, []byte("two")))
	refused("this one was edited, or is a second release", died.Hash, same, "one")
	require.ErrorIs(t, l.Commit(ctx, died.Hash, []byte("three")), ErrMismatch)
	require.ErrorIs(t, l.Commit(ctx, died.Hash, []byte("two")), ErrMismatch)
	require.ErrorIs(t, l.Commit(ctx, strings.Repeat("0", 64), []byte("two")), ErrBehind)
	require.ErrorIs(t, l.VerifyFile(l.Head(), c, []byte("two")), ErrBehind, "the line of a commitment is no entry")
	require.ErrorIs(t, l.VerifyFile("x", c, nil), ErrBehind)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, l.Commit(canceled, died.Hash, nil), ErrBusy)
	require.Len(t, lines(t, l), 5)
}

// What a person does who may write the file and computes all its hashes anew: what contradicts
// itself is refused, and what does not is found by a model of a later entry.
func TestRewritten(t *testing.T) {
	l := create(t, Terms{Total: dp.Budget{Epsilon: 1}})
	first, second := paid(t, l, "one"), paid(t, l, "two")
	last := paid(t, l, "three")
	all := lines(t, l) // terms, entry 1, its file, entry 2, its file, entry 3, its file
	open := func(lines ...[]byte) (*Ledger, error) {
		path := filepath.Join(t.TempDir(), "l")
		require.NoError(t, os.WriteFile(path, resealed(t, lines...), 0o600))
		return Open(path)
	}
	edit := func(line []byte, old, new string) []byte {
		require.Contains(t, string(line), old)
		return []byte(strings.Replace(string(line), old, new, 1))
	}
	same, err := open(all...)
	require.NoError(t, err)
	require.Equal(t, l.Head(), same.Head(), "resealed computes what the ledger does")

	for want, text := range map[string][][]byte{
		"commits entry 1 of 0 entries":       {all[0], all[2], all[1]},
		"commits entry 1 a second time":      {all[0], all[1], all[2], all[2]},
		"commits entry 0 of 1":               {all[0], all[1], edit(all[2], `"committed":1`, `"committed":0`)},
		"commits entry -1 of 1":              {all[0], all[1], edit(all[2], `"committed":1`, `"committed":-1`)},
		"want 64 hexadecimal digits":         {all[0], all[1], edit(all[2], fileDigest([]byte("one")), "x")},
		"want 32 hexadecimal digits":         {all[0], edit(all[1], `"nonce":"`+l.Entries()[0].Nonce+`"`, `"nonce":""`)},
		"it has the random bits of an entry": {all[0], all[1], edit(all[3], l.Entries()[1].Nonce, l.Entries()[0].Nonce)},
		"it has entry 1, want 2":             {all[0], all[1], all[1]},
		"it has entry 3, want 2":             {all[0], all[1], all[2], all[5]},
		"it was not written by this version": {all[0], edit(all[1], `"theorem"`, `"file":"","theorem"`)},
		"it is of version 5":                 {edit(all[0], `"ledger":4`, `"ledger":5`)},
		"Epsilon = 0, want":                  {all[0], edit(all[1], `"epsilon":0.1`, `"epsilon":0`)},
	} {
		_, err := open(text...)
		require.ErrorIs(t, err, ErrBroken, want)
		require.ErrorContains(t, err, want)
	}

	c := costs(0.1, 0).c
	removed, err := open(all[0], all[1], all[2], edit(all[5], `"entry":3`, `"entry":2`),
		edit(all[6], `"committed":3`, `"committed":2`))
	require.NoError(t, err)
	require.NoError(t, removed.VerifyFile(first.Hash, c, []byte("one")))
	require.ErrorIs(t, removed.VerifyFile(last.Hash, c, []byte("three")), ErrBehind)
	cheaper, err := open(all[0], all[1], all[2], edit(all[3], `"epsilon":0.1`, `"epsilon":0.01`), all[4], all[5], all[6])
	require.NoError(t, err)
	require.ErrorIs(t, cheaper.VerifyFile(last.Hash, c, []byte("three")), ErrBehind)
	// The file of entry 1 is edited and signed again: the models behind it tell, that of the entry
	// itself does not.
	signed, err := open(all[0], all[1], edit(all[2], fileDigest([]byte("one")), fileDigest([]byte("ONE"))), all[3], all[4],
		all[5], all[6])
	require.NoError(t, err)
	require.NoError(t, signed.VerifyFile(first.Hash, c, []byte("ONE")))
	require.ErrorIs(t, signed.VerifyFile(second.Hash, c, []byte("two")), ErrBehind)

	// An older copy in the place of the file: whoever has seen more notices, and so does a later
	// model.
	path := l.Path()
	require.NoError(t, os.WriteFile(path, resealed(t, all[:3]...), 0o600))
	old, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, old.VerifyFile(first.Hash, c, []byte("one")))
	require.ErrorIs(t, old.VerifyFile(second.Hash, c, []byte("two")), ErrBehind)
	require.ErrorIs(t, old.Verify(last.Hash), ErrBehind)
	require.ErrorIs(t, l.VerifyFile(first.Hash, c, []byte("one")), ErrBehind)
	_, err = l.Spend(ctx, costs(0.1, 0), nil)
	require.ErrorIs(t, err, ErrBehind)
	require.ErrorIs(t, l.Commit(ctx, first.Hash, []byte("one")), ErrBehind)
}

// A ledger of version 0.1.0, whose entries have no random bits: what it says stays charged, new
// entries are as in any ledger, and its old models cannot be verified.
func TestVersion1(t *testing.T) {
	text, err := os.ReadFile("testdata/version1.ledger")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "l")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	l, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, dp.Budget{Epsilon: 0.5}, l.Spent())
	c := dp.Certificate{Budget: dp.Budget{Epsilon: 0.25}, Relation: dp.Replace, Theorem: "query/1"}
	old := l.Entries()[1]
	err = l.VerifyFile(old.Hash, c, []byte("old"))
	require.ErrorIs(t, err, ErrMismatch)
	require.ErrorContains(t, err, "written by version 0.1.0")
	_, err = l.Spend(ctx, costs(0.51, 0), nil)
	require.ErrorIs(t, err, ErrOverspent)
	e := paid(t, l, "new")
	require.NoError(t, l.VerifyFile(e.Hash, costs(0.1, 0).c, []byte("new")))
	require.NoError(t, l.Verify(old.Hash))
	again, err := Open(path)
	require.NoError(t, err)
	require.Len(t, again.Entries(), 3)

	// Behind an entry with random bits all have some.
	all := lines(t, l)
	late := []byte(strings.Replace(string(all[1]), `"entry":1`, `"entry":4`, 1))
	require.NoError(t, os.WriteFile(path, resealed(t, append(all, late)...), 0o600))
	_, err = Open(path)
	require.ErrorIs(t, err, ErrBroken)
}

// A crash within the line of a commitment leaves a beginning of it, which the next line replaces.
func TestTornCommitment(t *testing.T) {
	l := create(t, Terms{Total: dp.Budget{Epsilon: 1}})
	e := paid(t, l, "one")
	text, err := os.ReadFile(l.Path())
	require.NoError(t, err)
	start := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for end := start; end < len(text); end++ {
		require.NoError(t, os.WriteFile(l.Path(), text[:end], 0o600))
		torn, err := Open(l.Path())
		require.NoError(t, err)
		require.Len(t, torn.Entries(), 1)
		if end == len(text)-1 { // only its newline is missing
			require.NoError(t, torn.VerifyFile(e.Hash, costs(0.1, 0).c, []byte("one")))
			paid(t, torn, "two")
			continue
		}
		require.ErrorContains(t, torn.VerifyFile(e.Hash, costs(0.1, 0).c, []byte("one")), "no file committed")
		require.NoError(t, torn.Commit(ctx, e.Hash, []byte("one")))
		require.NoError(t, torn.VerifyFile(e.Hash, costs(0.1, 0).c, []byte("one")))
	}
}
