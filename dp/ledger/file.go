package ledger

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/privopt/privopt/dp"
)

// The file has a line of JSON for the terms and one for each entry. The last
// member of a line is "hash", the SHA-256 of the hash of the line before, as
// text, and of the line up to that member, both as bytes.

// opening is the first line.
type opening struct {
	Version int       `json:"ledger"`
	ID      string    `json:"id"` // random, so that no two ledgers have a hash in common
	Time    time.Time `json:"time"`
	Terms
}

// state is what a file says.
type state struct {
	terms   Terms
	entries []Entry
	heads   []string // hash of each line
	spent   spent
	whole   int64 // bytes of the whole lines
	ended   bool  // the last of them has its newline
}

func (s *state) head() string { return s.heads[len(s.heads)-1] }

// hashMember is `,"hash":"` and what follows it has 64 digits and `"}`.
const hashMember = `,"hash":"`

const tailLen = len(hashMember) + 2*sha256.Size + len(`"}`)

func digest(previous string, body []byte) string {
	h := sha256.New()
	io.WriteString(h, previous)
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// seal encodes a line with its newline.
func seal(v any, previous string) (line []byte, hash string, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, "", fmt.Errorf("ledger: %w", err)
	}
	body := text[:len(text)-1] // without the brace
	hash = digest(previous, body)
	return append(body, hashMember+hash+"\"}\n"...), hash, nil
}

func first(t Terms) ([]byte, error) {
	id := make([]byte, 16)
	rand.Read(id) // never fails
	line, _, err := seal(opening{1, hex.EncodeToString(id), time.Now().UTC().Truncate(time.Second), t}, "")
	return line, err
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

// parse reads a file. A beginning of a line at its end is what a crash while
// writing leaves: noise was never drawn for it.
func parse(text []byte) (*state, error) {
	s := &state{ended: true}
	for number := 1; len(text) > 0; number++ {
		line, rest, ended := bytes.Cut(text, []byte{'\n'})
		err := s.add(line)
		if err != nil && !ended && number > 1 && s.torn(line) {
			return s, nil
		}
		if err != nil {
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

// torn reports whether a line without newline can be the beginning of the next
// entry.
func (s *state) torn(line []byte) bool {
	begin := fmt.Appendf(nil, `{"entry":%d,`, len(s.entries)+1)
	n := min(len(begin), len(line))
	complete := bytes.LastIndex(line, []byte(hashMember))
	return bytes.Equal(begin[:n], line[:n]) && (complete < 0 || len(line) < complete+tailLen)
}

// add reads the next line.
func (s *state) add(line []byte) error {
	if len(s.heads) == 0 {
		var o opening
		hash, err := unseal(line, "", &o)
		if err != nil {
			return err
		}
		if o.Version != 1 {
			return fmt.Errorf("it is of version %d, want 1", o.Version)
		}
		if err := o.Terms.Check(); err != nil {
			return err
		}
		s.terms, s.heads = o.Terms, []string{hash}
		return nil
	}
	var e Entry
	hash, err := unseal(line, s.head(), &e)
	if err != nil {
		return err
	}
	if e.Number != len(s.entries)+1 {
		return fmt.Errorf("it has entry %d, want %d", e.Number, len(s.entries)+1)
	}
	if err := (dp.Budget{Epsilon: e.Epsilon, Delta: e.Delta}).Check(); err != nil {
		return err
	}
	if len(e.RDP) != 0 && len(e.RDP) != len(s.terms.Orders) {
		return fmt.Errorf("it has %d values of rdp, want one for each of %d orders", len(e.RDP), len(s.terms.Orders))
	}
	e.Hash = hash
	s.entries, s.heads = append(s.entries, e), append(s.heads, hash)
	s.spent = s.spent.plus(s.terms, e)
	return nil
}

// append writes a line behind the whole ones and syncs it.
func (s *state) append(path string, line []byte) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(s.whole); err != nil {
		return err
	}
	if !s.ended {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.WriteAt(line, s.whole); err != nil {
		return errors.Join(err, f.Truncate(s.whole)) // a full disk leaves no half line
	}
	return f.Sync()
}
