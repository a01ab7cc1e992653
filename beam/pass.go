// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/wholefile"
)

// ticket is all that a pipeline holds.
type ticket struct {
	File string // a file with a task
	Pass string // its random name, which distinguishes it from other passes
}

// secret seals the messages of a task.
type secret struct {
	pass string
	key  []byte
}

// task holds the orders for workers. It is secret.
type task struct {
	Pass    string
	Key     []byte // of the messages of this pass
	Query   []byte // empty for a job that only opens the files
	Data    dataset
	Shards  int
	Threads int
}

// part is a message: the sums of some shards. It is secret.
type part struct {
	Shards []uint64 // a set of bits
	Sums   []byte   // of erm.Sums, empty without a query
}

// pass is the state of an attempt in the driver.
type pass struct {
	ticket
	*task
	folder string
}

const taskFile, resultFile = "task", "result"

// newPass makes the folder of an attempt and writes its task.
func newPass(s *Source, query []byte) (*pass, error) {
	random := make([]byte, 48)
	rand.Read(random) // never fails
	name := hex.EncodeToString(random[:16])
	p := &pass{
		task: &task{Pass: name, Key: random[16:], Query: query, Data: s.files.dataset, Shards: s.options.Shards,
			Threads: s.options.Threads},
		folder: filepath.Join(s.options.Scratch, "privopt-"+name),
	}
	p.ticket = ticket{File: filepath.Join(p.folder, taskFile), Pass: name}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(p.task); err != nil {
		return nil, err
	}
	if err := os.Mkdir(p.folder, 0o700); err != nil {
		return nil, fmt.Errorf("Options.Scratch: %w", err)
	}
	if err := wholefile.Write(p.File, b.Bytes(), 0o600); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

func (p *pass) remove() error { return wholefile.Discard(p.folder) }

// result reads the sums that the job wrote, nil without a query.
func (p *pass) result() (*erm.Sums, error) {
	sealed, err := os.ReadFile(filepath.Join(p.folder, resultFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("the job ended without a result; want a job that is waited for, not --async, and a " +
			"Scratch that all workers share")
	} else if err != nil {
		return nil, err
	}
	m, err := p.unseal(sealed)
	if err != nil {
		return nil, err
	}
	for i := range p.task.Shards {
		if m.Shards[i/64]>>(i%64)&1 == 0 {
			return nil, fmt.Errorf("shard %d is missing from the result", i)
		}
	}
	if len(p.Query) == 0 {
		return nil, nil
	}
	sums := new(erm.Sums)
	return sums, sums.UnmarshalBinary(m.Sums)
}

func (t ticket) load() (*task, error) {
	made := new(task)
	return made, t.read(made, &made.Pass)
}

// read reads the task file into made, where pass is its name.
func (t ticket) read(made any, pass *string) error {
	b, err := os.ReadFile(t.File)
	if err != nil {
		return err
	}
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(made); err != nil || *pass != t.Pass {
		return fmt.Errorf("%s is not the task of this pass", t.File)
	}
	return nil
}

func (s secret) cipher() cipher.AEAD {
	block, err := aes.NewCipher(s.key)
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// seal encrypts a message, so that neither the storage of an engine nor its logs show sums or
// lines.
func (s secret) seal(m any) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(m); err != nil {
		return nil, err
	}
	return s.cipher().Seal(nil, nil, b.Bytes(), []byte(s.pass)), nil
}

// unseal decrypts a message into m. It refuses messages of other passes.
func (s secret) unseal(b []byte, m any) error {
	plain, err := s.cipher().Open(nil, nil, b, []byte(s.pass))
	if err != nil {
		return errors.New("a message was damaged, or is not of this pass")
	}
	if gob.NewDecoder(bytes.NewReader(plain)).Decode(m) != nil {
		return errVersion
	}
	return nil
}

var errVersion = errors.New("a message of another version of this program")

// seal encrypts the sums of some shards.
func (t *task) seal(m *part) ([]byte, error) { return secret{t.Pass, t.Key}.seal(m) }

// unseal decrypts the sums of some shards.
func (t *task) unseal(b []byte) (*part, error) {
	m := new(part)
	if err := (secret{t.Pass, t.Key}).unseal(b, m); err != nil {
		return nil, err
	}
	if len(m.Shards) != (t.Shards+63)/64 {
		return nil, errVersion
	}
	return m, nil
}

// merge adds the sums of b to those of a. A shard in both is an error.
func merge(a, b *part) error {
	for i, set := range b.Shards {
		if a.Shards[i]&set != 0 {
			return errors.New("a shard was added twice")
		}
		a.Shards[i] |= set
	}
	if len(a.Sums)+len(b.Sums) == 0 {
		return nil
	}
	var s, t erm.Sums
	if err := s.UnmarshalBinary(a.Sums); err != nil {
		return err
	}
	if err := t.UnmarshalBinary(b.Sums); err != nil {
		return err
	}
	err := s.Merge(&t)
	if err == nil {
		a.Sums, err = s.MarshalBinary()
	}
	return err
}
