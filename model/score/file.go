// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package score

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/release"
)

const scoreVersion = 1

const mostFile = 1 << 30 // bytes

// Save writes the score as JSON. Equal scores give equal bytes.
func (s *Scores) Save(w io.Writer) error {
	if s == nil || w == nil {
		return fmt.Errorf("%w: the score or the writer is nil, want both", ErrFile)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("%w: the score has a number that JSON has not (%w), want finite numbers in [−MaxFloat64, "+
			"MaxFloat64], as Score returns them", ErrFile, err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Load reads a score that [Scores.Save] wrote. The error wraps [ErrFile] for another
// version, unknown keys, and a score that names no model.
func Load(r io.Reader) (*Scores, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: the reader is nil, want one of a score that Save wrote", ErrFile)
	}
	dec := json.NewDecoder(io.LimitReader(r, mostFile))
	dec.DisallowUnknownFields()
	s := &Scores{}
	switch err := dec.Decode(s); {
	case err != nil:
		return nil, fmt.Errorf("%w: no private score of this version: %w", ErrFile, err)
	case s.Version != scoreVersion || !release.IsDigest(s.Model) || s.Against != "" && !release.IsDigest(s.Against):
		return nil, fmt.Errorf("%w: version %d of the form of a score, of the model %.12q: want version %d, and the SHA-256 "+
			"of a model, which scores of version 0.2.0 do not hold", ErrFile, s.Version, s.Model, scoreVersion)
	case s.Ledger != "" && !release.IsDigest(s.Ledger):
		return nil, fmt.Errorf("%w: ledger: %.20q, want 64 hexadecimal digits, the hash of an entry", ErrFile, s.Ledger)
	case s.Private == slices.Contains(s.Certificate.Assumptions, dp.CallerSource):
		return nil, fmt.Errorf("%w: private is %v, and the certificate says something else", ErrFile, s.Private)
	case len(s.Metrics) == 0:
		return nil, fmt.Errorf("%w: the score has no metrics", ErrFile)
	}
	if err := s.Certificate.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return s, nil
}
