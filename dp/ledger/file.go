// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ledger

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/prefix"
)

// Every line of the file is a JSON object. The first line has the terms. Each entry has a line, and
// later another one if a file was committed for it. The last member of a line is "hash": the
// SHA-256 of the previous line's hash, as text, followed by the bytes of this line before that
// member.

// opening is the first line.
type opening struct {
	Version int       `json:"ledger"`
	ID      string    `json:"id"` // random, so that no two ledgers have a hash in common
	Time    time.Time `json:"time"`
	Terms
}

// commitment is the line that says which file an entry paid for.
type commitment struct {
	Number int       `json:"committed"` // of the entry
	Time   time.Time `json:"time"`
	SHA256 string    `json:"sha256"` // of the file, 64 hexadecimal digits
}

// These are the beginnings of all lines after the first.
const (
	entryBegins      = `{"entry":`
	commitmentBegins = `{"committed":`
)

// state is the content of a file.
type state struct {
	version int
	terms   Terms
	entries []Entry
	heads   []string // hash of each line
	nonces  map[string]bool
	spent   spent
	before  spent // without the last entry
	whole   int64 // bytes of the whole lines
	ended   bool  // the last of them has its newline
}

func (s *state) head() string { return s.heads[len(s.heads)-1] }

// lacks is the error for a hash that is not in the file.
func lacks(path, hash string) error {
	return fmt.Errorf("%w: %s has no entry %.12s…, which was recorded elsewhere: entries were removed, or it is another "+
		"ledger; restore it from a copy", ErrBehind, path, hash)
}

// hashMember is `,"hash":"` and what follows it has 64 digits and `"}`.
const hashMember = `,"hash":"`

const tailLen = len(hashMember) + 2*sha256.Size + len(`"}`)

func digest(previous string, body []byte) string {
	return fileDigest(append([]byte(previous), body...))
}

// seal encodes a line with its newline.
func seal(v any, previous string) (line []byte, hash string, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, "", prefix.Errorf("ledger: %w", err)
	}
	body := text[:len(text)-1] // without the brace
	hash = digest(previous, body)
	return append(body, hashMember+hash+"\"}\n"...), hash, nil
}

// Versions of the format: 1 is that of version 0.1.0, whose entries have no Nonce; 2 and 4 differ
// in Entry.Alone, which 2 has not. Version 3, of version 0.2.0, had another filter.
const formatVersion = 4

// filtered is how the first line of a ledger of version 3 begins.
const filtered = `{"ledger":3,`

// bits returns 128 random bits as 32 hexadecimal digits.
func bits() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// isHex reports whether s consists of the given number of lower-case hexadecimal digits.
func isHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

// unseal checks the hash of a line and decodes it.
func unseal(line []byte, previous string, v any) (hash string, err error) {
	cut := len(line) - tailLen
	if cut < 0 || !bytes.HasPrefix(line[cut:], []byte(hashMember)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return "", errors.New("it does not end with its hash")
	}
	hash = digest(previous, line[:cut])
	if string(line[cut+len(hashMember):len(line)-2]) != hash {
		return "", errors.New("its hash is not that of its text and the line before")
	}
	dec := json.NewDecoder(bytes.NewReader(append(line[:cut:cut], '}')))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return "", fmt.Errorf("it was not written by this version: %w", err)
	}
	return hash, nil
}

// parse reads a file. A partial line at the end of the file is the trace of a crash while writing:
// noise was never drawn for it.
func parse(text []byte) (*state, error) {
	s := &state{ended: true}
	for number := 1; len(text) > 0; number++ {
		line, rest, ended := bytes.Cut(text, []byte{'\n'})
		err := s.add(line)
		if err != nil && !ended && number > 1 && s.torn(line) {
			return s, nil
		}
		if err != nil {
			if errors.Is(err, errFiltered) {
				return nil, fmt.Errorf("%w: %w", ErrTerms, err)
			}
			return nil, fmt.Errorf("%w: line %d: %w: restore the file from a copy", ErrBroken, number, err)
		}
		s.whole += int64(len(line))
		if s.ended = ended; ended {
			s.whole++
		}
		text = rest
	}
	if len(s.heads) == 0 {
		return nil, fmt.Errorf("%w: it is empty, want the terms in its first line: make it anew", ErrBroken)
	}
	return s, nil
}

// errFiltered reports a ledger of version 3.
var errFiltered = errors.New("the ledger has version 3 of the format, of version 0.2.0")

// torn reports whether a line without newline can be the beginning of the next one.
func (s *state) torn(line []byte) bool {
	begins := func(with string) bool {
		n := min(len(with), len(line))
		return with[:n] == string(line[:n])
	}
	complete := bytes.LastIndex(line, []byte(hashMember))
	return (begins(fmt.Sprintf(entryBegins+"%d,", len(s.entries)+1)) || begins(commitmentBegins)) &&
		(complete < 0 || len(line) < complete+tailLen)
}

// add reads the next line.
func (s *state) add(line []byte) error {
	if len(s.heads) == 0 {
		var o opening
		if bytes.HasPrefix(line, []byte(filtered)) {
			return fmt.Errorf("%w, whose Gaussian filter this version lacks: only version 0.2.0 can read and continue it; "+
				"create another ledger, whose total is that of this one less the sums of ε and of δ of its entries", errFiltered)
		}
		hash, err := unseal(line, "", &o)
		if err != nil {
			return err
		}
		if v := o.Version; v != 1 && v != 2 && v != formatVersion {
			return fmt.Errorf("it is of version %d, want 1, 2 or %d", v, formatVersion)
		}
		if err := o.Terms.Check(); err != nil {
			return err
		}
		s.version, s.terms = o.Version, o.Terms
		s.heads = []string{hash}
		return nil
	}
	if bytes.HasPrefix(line, []byte(commitmentBegins)) {
		return s.commit(line)
	}
	var e Entry
	hash, err := unseal(line, s.head(), &e)
	switch {
	case err != nil:
		return err
	case e.Number != len(s.entries)+1:
		return fmt.Errorf("it has entry %d, want %d", e.Number, len(s.entries)+1)
	case e.RDP != nil && len(e.RDP) != len(s.terms.Orders):
		return fmt.Errorf("it has %d values of rdp, want one for each of %d orders", len(e.RDP), len(s.terms.Orders))
	case slices.ContainsFunc(e.RDP, func(v float64) bool { return v < 0 }):
		return fmt.Errorf("it has the rdp %v, want numbers ≥ 0", e.RDP)
	case !(e.Failure >= 0 && e.Failure <= 1):
		return fmt.Errorf("it has the failure %v, want a probability", e.Failure)
	case e.Alone && s.version != formatVersion:
		return fmt.Errorf("it stands alone, in a ledger of version %d", s.version)
	case e.Alone && e.Number != 1:
		return fmt.Errorf("entry %d stands alone, want entry 1 at most", e.Number)
	case e.Relation != s.terms.Relation:
		return fmt.Errorf("it is about %v neighbors, the terms are about %v", e.Relation, s.terms.Relation)
	case (e.Rows > 0) != s.terms.Persons || e.Rows < 0:
		return fmt.Errorf("it has rows %d, the terms are about neighbors that differ in one %s", e.Rows,
			unit(s.terms.Persons))
	}
	if len(s.entries) > 0 && e.Person != s.entries[0].Person {
		return fmt.Errorf("it is about persons by the column %.40q, entry 1 by %.40q", e.Person, s.entries[0].Person)
	}
	if err := (dp.Budget{Epsilon: e.Epsilon, Delta: e.Delta}.Check()); err != nil {
		return err
	}
	if err := s.nonce(e); err != nil {
		return err
	}
	e.Hash = hash
	s.entries, s.heads = append(s.entries, e), append(s.heads, hash)
	s.before, s.spent = s.spent, s.spent.plus(s.terms, e)
	return nil
}

// same refuses a plan about persons of another column than that of the entries: somebody with one
// id as a patient and many as visits would be protected by more than the total.
func (s *state) same(path string, c dp.Certificate) error {
	if len(s.entries) == 0 || s.entries[0].Person == c.Person {
		return nil
	}
	first := s.entries[0].Person
	if first == "" {
		return fmt.Errorf("%w: the plan is about persons by the column %.40q, and the entries of %s name no column, like "+
			"those of version 0.2.0: create another ledger, whose total is that of this one less the sums of ε and of δ of its "+
			"entries", dp.ErrRelation, c.Person, path)
	}
	return fmt.Errorf("%w: the plan is about persons by the column %.40q, and %s counts persons by the column %.40q, as "+
		"its first entry says: want the same column, or another ledger", dp.ErrRelation, c.Person, path, first)
}

// nonce checks the random bits of the next entry. Entries of version 0.1.0 have none, and must
// precede all others.
func (s *state) nonce(e Entry) error {
	old := s.version == 1 && (len(s.entries) == 0 || s.entries[len(s.entries)-1].Nonce == "")
	if e.Nonce == "" && old {
		return nil
	}
	if !isHex(e.Nonce, 32) {
		return fmt.Errorf("its nonce is %q, want 32 hexadecimal digits", e.Nonce)
	}
	if s.nonces[e.Nonce] {
		return errors.New("it has the random bits of an entry before it")
	}
	if s.nonces == nil {
		s.nonces = map[string]bool{}
	}
	s.nonces[e.Nonce] = true
	return nil
}

// commit reads a line that names the file of an entry.
func (s *state) commit(line []byte) error {
	var c commitment
	hash, err := unseal(line, s.head(), &c)
	switch {
	case err != nil:
		return err
	case c.Number < 1 || c.Number > len(s.entries):
		return fmt.Errorf("it commits entry %d of %d entries before it", c.Number, len(s.entries))
	case s.entries[c.Number-1].File != "":
		return fmt.Errorf("it commits entry %d a second time", c.Number)
	case !isHex(c.SHA256, 64):
		return fmt.Errorf("its sha256 is %q, want 64 hexadecimal digits", c.SHA256)
	}
	s.entries[c.Number-1].File = c.SHA256
	s.heads = append(s.heads, hash)
	return nil
}

// append writes a line after the last whole line and syncs it to the disk.
func (s *state) append(f *os.File, line []byte) error {
	if err := f.Truncate(s.whole); err != nil { // remove a partial line that a crash left
		return err
	}
	if !s.ended {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.WriteAt(line, s.whole); err != nil {
		return errors.Join(err, f.Truncate(s.whole)) // if the disk is full, remove the partial line
	}
	return f.Sync()
}

// writeNew writes a new file with its first line. It writes the file under its final name, because
// renaming would put another file in the place of one that is locked.
func writeNew(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil { // make the name last; some systems cannot sync a folder
		dir.Sync()
		dir.Close()
	}
	return nil
}
