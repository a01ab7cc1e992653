package erm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/loss"
)

// Query asks for sums over records at a point. It is secret: the point is a function of the
// records and of the noise of a release. It prints as its dimension; MarshalBinary writes the
// point, to be kept where the records are.
//
// A loss of package loss is known to every process; a process that gets a query about another one
// has to register it with encoding/gob.
type Query struct{ q func() *query } // a function, see Data

// wireQuery is a query as it is written.
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
}

const wireVersion = 1

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

// String returns the dimension, "erm.Query(100)".
func (q *Query) String() string {
	if q == nil || q.q == nil {
		return "erm.Query(0)"
	}
	return fmt.Sprintf("erm.Query(%d)", q.q().dim)
}

// Format prints String for every verb.
func (q Query) Format(f fmt.State, _ rune) { io.WriteString(f, q.String()) }

// sealed returns a copy of q that a Remote may share and keep. The error is about a loss that is not registered.
func (q *query) sealed() (*Query, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(wireQuery{
		wireVersion, q.dim, uint8(q.ask), q.x, q.low, q.loss, q.bounds, q.stream, q.grain, q.key,
	})
	if err != nil {
		return nil, prefix.Errorf("erm: the loss %T cannot be sent to other processes: %w", q.loss, err)
	}
	in := *q
	in.x, in.low = slices.Clone(q.x), slices.Clone(q.low)
	in.wire = binary.LittleEndian.AppendUint32(b.Bytes(), crc32.Checksum(b.Bytes(), castagnoli))
	return &Query{func() *query { return &in }}, nil
}

// MarshalBinary writes q, its point included. The error is about an empty Query.
func (q *Query) MarshalBinary() ([]byte, error) {
	if q == nil || q.q == nil {
		return nil, errEmpty
	}
	return bytes.Clone(q.q().wire), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checked returns b without its checksum.
func checked(b []byte) ([]byte, error) {
	n := len(b) - 4
	if n < 0 || crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, fmt.Errorf("%w: the checksum does not fit %d bytes; they were cut or changed", errWire, len(b))
	}
	return b[:n], nil
}

// UnmarshalBinary reads what MarshalBinary wrote.
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
	if len(w.X) != w.Dim || w.Dim < 1 || w.Low != nil && len(w.Low) != w.Dim {
		return fmt.Errorf("%w: a point of %d numbers in %d dimensions", errWire, len(w.X), w.Dim)
	}
	if w.Ask >= uint8(2*askPrint) {
		return fmt.Errorf("%w: unknown sums", errWire)
	}
	if w.Grain < 1 || w.Grain > grain {
		return fmt.Errorf("%w: sums of %d records", errWire, w.Grain)
	}
	if w.Loss == nil {
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

// id tells queries apart.
func (q *query) id() [16]byte {
	sum := sha256.Sum256(q.wire)
	return [16]byte(sum[:16])
}

// Sum adds up records first, …, first+count−1 of src, each forced into the bounds, on at most so
// many threads, GOMAXPROCS for 0. first is a multiple of Chunk. Whatever the ranges that
// the records are cut into, the merged Sums have the same bits.
func (q *Query) Sum(ctx context.Context, src Source, first, count, threads int) (*Sums, error) {
	if q == nil || q.q == nil {
		return nil, errEmpty
	}
	if ctx == nil {
		return nil, fmt.Errorf("%w: ctx is nil, want one such as context.Background()", ErrSource)
	}
	data, err := Open(src, q.q().bounds)
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
	p := &pass{query: *q.q(), ctx: ctx, data: r, first: first, count: count}
	if err := p.run(threads); err != nil {
		return nil, err
	}
	return &Sums{&sums{id: p.id(), n: int64(count), fingerprint: p.fingerprint, total: p.total}}, nil
}

// Sums are exact sums over some records, or all. They are functions of the records: not private.
// They print as nothing but their type.
type Sums struct{ in *sums } // a pointer inside a struct prints as an address

// sums is what Sums hides.
type sums struct {
	id          [16]byte // of the query
	n           int64
	fingerprint [2]uint64
	total       num.ExactVector
}

// String returns "erm.Sums(not private)".
func (Sums) String() string { return "erm.Sums(not private)" }

// Format prints String for every verb.
func (s Sums) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// answers returns an error unless s is a whole answer to q.
func (s *Sums) answers(q *query) error {
	switch {
	case s == nil || s.in == nil:
		return fmt.Errorf("%w: no Sums", errWire)
	case s.in.id != q.id() || s.in.total.Len() != q.size():
		return prefix.New("erm: these Sums answer another query")
	}
	return nil
}

// Merge adds t, the sums over other records at the same query: exactly, so that neither the order nor
// the tree of merges matters. The error is about sums of another query. It leaves t as it is.
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

// MarshalBinary writes s.
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

// UnmarshalBinary reads what MarshalBinary wrote.
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
