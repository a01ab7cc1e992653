// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/loss"
)

// Query is a request for sums over records at a point, or for a [Fold]. It is secret, because the
// point is a function of the records and of the noise of a release. fmt prints it as an address.
// MarshalBinary writes the point: its bytes must be kept where the records are kept.
//
// Losses of package loss are known to every process. A process that receives a query about another
// loss must register its type with encoding/gob.
type Query struct{ q func() *query } // a function, as in Data

// wireQuery is the encoded form of a query.
type wireQuery struct {
	Version int
	Dim     int
	Ask     uint8
	X, Low  []float64
	Loss    loss.Loss
	Bounds  loss.Bounds
	Stream  bool
	Grain   int
	Key     [2]uint64
	Persons Persons // zero if every record is a unit of its own
	Fold    Fold    // in place of all sums at a point, else nil
}

const wireVersion = 4

var (
	errWire  = prefix.New("erm: not the bytes of a Query or of Sums of this version")
	errEmpty = fmt.Errorf("%w: the Query is empty", errWire)
)

func init() {
	for _, l := range []loss.Loss{
		loss.Squared{}, loss.Logistic{}, loss.Huber{}, loss.PseudoHuber{}, loss.LogCosh{}, loss.SmoothedHinge{},
		loss.RootHinge{}, loss.SoftClipped{}, loss.Clipped{}, loss.Moreau{}, loss.Hinge{}, loss.Absolute{}, loss.Pinball{},
		loss.EpsilonInsensitive{}, loss.Multinomial{},
	} {
		gob.Register(l)
	}
}

// sealed returns a copy of q that a Remote may share and keep, about lines of persons unless who is
// nil. It fails if the loss is not registered.
func (q *query) sealed(who *people) (*Query, error) {
	in := *q
	if who != nil {
		in.persons = who.Persons
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(wireQuery{
		wireVersion, q.dim, uint8(q.ask), q.x, q.low, q.loss, q.bounds, q.stream, q.grain, q.key,
		in.persons, q.fold,
	})
	if err != nil {
		return nil, prefix.Errorf("erm: the loss %T or the Fold %T cannot be sent to other processes: %w", q.loss, q.fold,
			err)
	}
	in.x, in.low = slices.Clone(q.x), slices.Clone(q.low)
	in.wire = binary.LittleEndian.AppendUint32(b.Bytes(), crc32.Checksum(b.Bytes(), castagnoli))
	return &Query{func() *query { return &in }}, nil
}

// MarshalBinary encodes q, including its point. It fails for an empty Query.
func (q *Query) MarshalBinary() ([]byte, error) {
	if q == nil || q.q == nil {
		return nil, errEmpty
	}
	return bytes.Clone(q.q().wire), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checked verifies the checksum at the end of b and returns b without it.
func checked(b []byte) ([]byte, error) {
	n := len(b) - 4
	if n < 0 || crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, fmt.Errorf("%w: the checksum does not fit %d bytes; they were cut or changed", errWire, len(b))
	}
	return b[:n], nil
}

// UnmarshalBinary decodes the result of MarshalBinary.
func (q *Query) UnmarshalBinary(b []byte) error {
	body, err := checked(b)
	if err != nil {
		return err
	}
	var w wireQuery
	if err := gob.NewDecoder(bytes.NewReader(body)).Decode(&w); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	if w.Version != wireVersion {
		return fmt.Errorf("%w: version %d, want %d", errWire, w.Version, wireVersion)
	}
	if w.Persons != (Persons{}) {
		if err := w.Persons.Check(); err != nil {
			return err
		}
	}
	if w.Fold != nil {
		if err := errors.Join(checkShape(0, 0, w.Bounds), checkFeatures(w.Dim)); err != nil {
			return err
		}
		in := &query{costs: costs{dim: w.Dim, bounds: w.Bounds}, fold: w.Fold, key: w.Key, wire: bytes.Clone(b),
			persons: w.Persons}
		q.q = func() *query { return in }
		return nil
	}
	switch {
	case len(w.X) != w.Dim || w.Dim < 1 || w.Low != nil && len(w.Low) != w.Dim:
		return fmt.Errorf("%w: a point of %d numbers in %d dimensions", errWire, len(w.X), w.Dim)
	case w.Ask >= uint8(2*askPrint):
		return fmt.Errorf("%w: unknown sums", errWire)
	case w.Grain < 1 || w.Grain > grain:
		return fmt.Errorf("%w: sums of %d records", errWire, w.Grain)
	case w.Loss == nil:
		return fmt.Errorf("%w: no loss", errWire)
	}
	if err := loss.Check(w.Loss); err != nil {
		return err
	}
	if err := loss.CheckData(w.Loss, w.Dim, w.Bounds); err != nil {
		return err
	}
	in := &query{
		costs: newCosts(w.Loss, w.Bounds, w.Dim), ask: ask(w.Ask), x: w.X, low: w.Low, normX: floats.Norm(w.X, 2),
		stream: w.Stream, grain: w.Grain, key: w.Key, wire: bytes.Clone(b),
		persons: w.Persons,
	}
	if in.glm == nil && in.ask&(askHess|askBound|askGram) != 0 {
		return fmt.Errorf("%w: a Hessian of a loss that is not a loss.Linear", errWire)
	}
	if in.ask&askPrint != 0 {
		in.mult = multipliersOf(in.key, in.dim)
	}
	q.q = func() *query { return in }
	return nil
}

// id identifies a query.
func (q *query) id() [16]byte {
	sum := sha256.Sum256(q.wire)
	return [16]byte(sum[:16])
}

// Sum computes the sums over records first, …, first+count−1 of src, each forced into the bounds.
// It uses at most the given number of threads, GOMAXPROCS for 0. first must be a multiple of
// [Chunk]. For any partition of the records into ranges, the merged Sums have the same bits.
func (q *Query) Sum(ctx context.Context, src Source, first, count, threads int) (*Sums, error) {
	if q == nil || q.q == nil {
		return nil, errEmpty
	}
	if ctx == nil {
		return nil, fmt.Errorf("%w: ctx is nil, want one such as context.Background()", ErrSource)
	}
	data, err := q.q().open(src)
	if err != nil {
		return nil, err
	}
	r := data.r()
	if first < 0 || first%Chunk != 0 || count < 0 || count > r.n-first {
		return nil, fmt.Errorf("%w: the records to add up are not a range of the source that begins at a multiple of %d",
			ErrSource, Chunk)
	}
	if r.d != q.q().dim {
		return nil, fmt.Errorf("%w: the source has %d features, the query is about %d", ErrSource, r.d, q.q().dim)
	}
	if q.q().fold != nil {
		return q.q().foldOver(ctx, src, first, count)
	}
	p := &pass{query: *q.q(), ctx: ctx, data: r, first: first, count: count}
	if err := p.run(threads); err != nil {
		return nil, err
	}
	return &Sums{in: &sums{id: p.id(), n: int64(count), fingerprint: p.fingerprint, total: p.total}}, nil
}

// open opens the records that q is about.
func (q *query) open(src Source) (*Data, error) {
	if q.persons != (Persons{}) {
		return openLines(src, q.bounds, q.persons)
	}
	return Open(src, q.bounds)
}

// Sums are exact sums over some or all records. Not private: they are functions of the records. fmt
// does not print them.
type Sums struct {
	secret
	in *sums
}

// sums is the state that Sums hides.
type sums struct {
	id          [16]byte // of the query
	n           int64    // records
	fingerprint [2]uint64
	total       num.ExactVector
}

// answers returns an error unless s answers q.
func (s *Sums) answers(q *query) error {
	switch {
	case s == nil || s.in == nil:
		return fmt.Errorf("%w: no Sums", errWire)
	case s.in.id != q.id() || s.in.total.Len() != q.size():
		return prefix.New("erm: these Sums answer another query")
	}
	return nil
}

// Merge adds t, the sums over other records for the same query. It is exact, so neither the order
// nor the tree of merges matters. It fails for sums of another query and does not change t.
func (s *Sums) Merge(t *Sums) error {
	switch {
	case t == nil || t.in == nil:
		return fmt.Errorf("%w: the Sums to merge are empty", errWire)
	case s.in == nil:
		s.in = &sums{id: t.in.id}
		s.in.total.Reset(t.in.total.Len())
	case s.in.id != t.in.id || s.in.total.Len() != t.in.total.Len():
		return prefix.New("erm: Merge of Sums that answer different queries")
	}
	s.in.n += t.in.n
	for k := range s.in.fingerprint {
		s.in.fingerprint[k] += t.in.fingerprint[k]
	}
	s.in.total.Merge(&t.in.total)
	return nil
}

const sumsHead = "privopt sums 1\n"

// MarshalBinary encodes s. It fails for empty Sums.
func (s *Sums) MarshalBinary() ([]byte, error) {
	if s == nil || s.in == nil {
		return nil, fmt.Errorf("%w: the Sums are empty", errWire)
	}
	b := append([]byte(sumsHead), s.in.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.in.n))
	b = binary.LittleEndian.AppendUint64(b, s.in.fingerprint[0])
	b = binary.LittleEndian.AppendUint64(b, s.in.fingerprint[1])
	b, err := s.in.total.AppendBinary(b)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), err
}

// UnmarshalBinary decodes the result of MarshalBinary.
func (s *Sums) UnmarshalBinary(b []byte) error {
	b, err := checked(b)
	if err != nil {
		return err
	}
	const fixed = len(sumsHead) + 16 + 24
	if len(b) < fixed || string(b[:len(sumsHead)]) != sumsHead {
		return errWire
	}
	in := &sums{id: [16]byte(b[len(sumsHead):])}
	n := binary.LittleEndian.Uint64(b[fixed-24:])
	if n > math.MaxInt64 {
		return fmt.Errorf("%w: a count out of range", errWire)
	}
	in.n = int64(n)
	in.fingerprint = [2]uint64{binary.LittleEndian.Uint64(b[fixed-16:]), binary.LittleEndian.Uint64(b[fixed-8:])}
	if err := in.total.UnmarshalBinary(b[fixed:]); err != nil {
		return err
	}
	s.in = in
	return nil
}
