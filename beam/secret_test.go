// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package beam

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/gob"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	sdklog "github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
)

// secrets is a set of texts that must not appear in logs or pipelines: numbers in every form in
// which they could be printed or encoded.
type secrets map[string]bool

// number adds the forms of v, unless v has so few digits that they may appear by chance.
func (s secrets) number(v float64) {
	bits := math.Float64bits(v)
	if a := math.Abs(v); !(a > 1e-30 && a < 1e30) || bits<<32 == 0 {
		return
	}
	if digits := strconv.FormatFloat(math.Abs(v), 'e', 10, 64); digits != "" {
		digits, _, _ = strings.Cut(digits, "e")
		s[digits[2:]] = true // the digits after the first one, rounded
	}
	if digits := strconv.FormatFloat(math.Abs(v), 'e', -1, 64); len(digits) > 15 {
		s[digits[2:12]] = true // the same digits, cut off
	}
	s.word(bits)
	s[fmt.Sprintf("%013x", bits&(1<<52-1))] = true // the digits that %x and %b print
	s[strconv.FormatUint(bits&(1<<52-1)|1<<52, 10)] = true
}

// word adds the forms of eight bytes.
func (s secrets) word(v uint64) {
	for _, order := range []binary.AppendByteOrder{binary.BigEndian, binary.LittleEndian} {
		b := order.AppendUint64(nil, v)
		s[string(b)] = true
		s[hex.EncodeToString(b)] = true
		s[strings.ToUpper(hex.EncodeToString(b))] = true
	}
	s[strconv.FormatUint(v, 10)] = true
}

// point adds the point at which a query evaluates.
func (s secrets) point(t testing.TB, query []byte) {
	var q struct{ X, Low []float64 } // these are fields of the encoding of MarshalBinary
	require.NoError(t, gob.NewDecoder(bytes.NewReader(query)).Decode(&q))
	require.NotEmpty(t, q.X)
	for _, v := range append(q.X, q.Low...) {
		s.number(v)
	}
}

// in returns the secrets that text contains.
func (s secrets) in(text string) (found []string) {
	for secret := range s {
		if strings.Contains(text, secret) {
			found = append(found, secret)
		}
	}
	return found
}

func TestSecretsFind(t *testing.T) {
	v := -0.12345678901234567
	for _, text := range []string{
		fmt.Sprint(v), fmt.Sprintf("%.12f", v), fmt.Sprintf("%.10e", v),
		fmt.Sprintf("%x", v), fmt.Sprintf("%b", v), fmt.Sprint(math.Float64bits(v)),
		fmt.Sprintf("%X", math.Float64bits(v)), string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))),
	} {
		s := secrets{}
		s.number(v)
		require.NotEmpty(t, s.in("a text with "+text+" in it"), text)
	}
	s := secrets{}
	s.number(v)
	require.Empty(t, s.in("2026-11-22T07:18:12.042Z level=INFO 1795331891999510476"))
}

var base = regexp.MustCompile(`[A-Za-z0-9+/_-]{16,}`)

// decoded returns text, followed by the decoded form of everything in it that is encoded with
// base64, as pipelines encode their parts.
func decoded(text string) string {
	all := text
	for part := text; part != ""; {
		var inner strings.Builder
		for _, code := range base.FindAllString(part, -1) {
			for from := range 4 { // the letters before a code may look like a part of it
				for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
					b, _ := e.DecodeString(code[from:]) // decode as much as possible
					inner.Write(b)
					inner.WriteByte('\n')
				}
			}
		}
		part = inner.String()
		all += part
	}
	return all
}

// tap is a random source that records its output.
type tap struct {
	rand.Source
	seen []uint64
}

func (p *tap) Uint64() uint64 {
	v := p.Source.Uint64()
	p.seen = append(p.seen, v)
	return v
}

// log collects everything that is logged, including the pipelines that the runners log at debug
// level.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// logs collects what is logged and printed until the test ends, and returns a function that shows
// it.
func logs(t *testing.T) (text func(errs ...error) string) {
	t.Helper()
	var logged log
	was := slog.Default()
	sdklog.SetLogger(&sdklog.Structural{}) // workers of jobs before replaced it
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug - 100})))
	stdout, stderr := os.Stdout, os.Stderr
	printed, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	require.NoError(t, err)
	os.Stdout, os.Stderr = printed, printed
	t.Cleanup(func() {
		slog.SetDefault(was)
		os.Stdout, os.Stderr = stdout, stderr
		printed.Close()
	})
	return func(errs ...error) string {
		all, err := os.ReadFile(printed.Name())
		require.NoError(t, err)
		logged.mu.Lock()
		defer logged.mu.Unlock()
		return decoded(fmt.Sprintln(errs) + logged.b.String() + string(all))
	}
}

// TestSecrets checks that neither logs nor errors show a point of the solver, a sum, the noise or a
// record, whether a fit succeeds or fails.
func TestSecrets(t *testing.T) {
	logged := logs(t)
	defer armed.Store(false)
	rows, labels := randomTable(20000, 3)
	for i := range labels {
		labels[i] *= 0.1 + 0.001*math.Sqrt(float64(i+1)) // distinct labels can be recognized
	}
	path := pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels)
	found := secrets{}
	for i, row := range rows[:50] {
		for _, v := range append(row, labels[i]) {
			found.number(v)
		}
	}
	var failed []error
	for _, runner := range runners {
		for _, fails := range []bool{false, true} {
			s := cluster(t, Options{Runner: runner, Shards: 3, Threads: 1}, path)
			spy := &spy{Source: s, t: t, found: found}
			src := &tap{Source: noise.Reproducible(5)}
			armed.Store(fails)
			panics.Store(1 << 40)
			p := &erm.Problem{Data: opened(t, spy), Loss: faulty{}}
			rel, err := (&lop.Mechanism{Radius: 1}).Fit(t.Context(), p, dp.Budget{Epsilon: 1, Delta: 1e-6}, src)
			require.Equal(t, fails, err != nil)
			if fails {
				failed = append(failed, err)
			} else {
				for _, v := range rel.Theta {
					found.number(v)
				}
				require.Greater(t, spy.jobs, 2)
			}
			require.NotEmpty(t, src.seen)
			for _, v := range src.seen[:min(len(src.seen), 200)] {
				found.word(v)
			}
		}
	}
	require.Greater(t, len(found), 2000)
	text := logged(failed...)
	require.Contains(t, text, "Pipeline proto")
	require.Contains(t, text, taskFile+`","Pass":"`, "the search must find the fields of the steps")
	require.Contains(t, text, "shard 0 panicked")
	require.Empty(t, found.in(text))
	require.NotContains(t, text, "prediction")
}

// TestEncodeSecrets checks that neither logs nor errors nor pipelines show an id, a field or an
// encoded number of a table, or the name of a file, whether the workers encode it or refuse it.
func TestEncodeSecrets(t *testing.T) {
	logged := logs(t)
	defer func(n int64) { splitBytes = n }(splitBytes)
	splitBytes = 4000
	scratch := t.TempDir()
	found := secrets{}
	var failed []error
	for _, runner := range runners {
		for _, fails := range []bool{false, true} {
			made := visitFiles(t, 2)
			for k, path := range made.Paths {
				text := "id,age,pays\n"
				for i := range 400 {
					id, age := fmt.Sprintf("who%06d", 7919*(i+1)*(k+2)%999983), 20+59*math.Sqrt(float64(i)/400)
					text += fmt.Sprintf("%s,%v,yes\n", id, age)
					found[id] = true
					found.number(age)
					found.number((age - 50) / 30)
				}
				if fails && k == 1 {
					text += "who-is-this,SECRET-AGE,no\n"
				}
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
				found[path] = true
			}
			s, err := Encode(t.Context(), made, Options{Runner: runner, Scratch: scratch})
			if failed = append(failed, err); fails {
				require.ErrorIs(t, err, ErrOptions)
				continue
			}
			require.NoError(t, err)
			n, d := s.Dims()
			rows, labels := make([]float64, n*d), make([]float64, n)
			require.NoError(t, s.Read(t.Context(), rows, labels, 0))
			for _, v := range rows {
				found.number(v)
			}
			require.NoError(t, s.Close())
		}
	}
	found["who-is-this"], found["SECRET-AGE"] = true, true
	require.Greater(t, len(found), 2000)
	text := logged(failed...)
	require.Contains(t, text, "Pipeline proto")
	require.Contains(t, text, "encodeSplit", "the search must find the steps")
	require.Contains(t, text, "the table is refused: file 2 from its byte")
	require.Empty(t, found.in(text))
}

// spy is a Source that adds the points and sums of its jobs to the secrets.
type spy struct {
	*Source
	t     testing.TB
	found secrets
	jobs  int
}

func (s *spy) Sum(ctx context.Context, q *erm.Query) (*erm.Sums, error) {
	s.jobs++
	b, err := q.MarshalBinary()
	if err != nil {
		return nil, err
	}
	s.found.point(s.t, b)
	sums, err := s.Source.Sum(ctx, q)
	if err == nil {
		if b, err = sums.MarshalBinary(); err == nil {
			for i := 16; i+8 <= min(len(b), 2000); i += 4 {
				if v := binary.LittleEndian.Uint64(b[i:]); v>>32 != 0 && v<<32 != 0 {
					s.found.word(v)
				}
			}
		}
	}
	return sums, err
}

// TestPipeline checks that a pipeline contains only the names of the pass and of a file: nothing of
// the query, of the records or of their location.
func TestPipeline(t *testing.T) {
	rows, labels := randomTable(20000, 3)
	s := cluster(t, Options{Shards: 3}, pack(t, filepath.Join(t.TempDir(), "all.npy"), rows, labels))
	q := query(t, s)
	p, err := newPass(s, marshalled(t, q))
	require.NoError(t, err)
	defer p.remove()
	edges, _, err := pipeline(p.ticket, []int{0, 1, 2}).Build()
	require.NoError(t, err)
	pipe, err := graphx.Marshal(edges, &graphx.Options{Environment: &pipepb.Environment{}})
	require.NoError(t, err)
	whole, err := proto.Marshal(pipe)
	require.NoError(t, err)
	text := decoded(string(whole) + prototext.Format(pipe))
	require.Contains(t, text, p.ticket.Pass, "the search must find the contents of a pipeline")
	require.Contains(t, text, p.File)

	found := secrets{"all.npy": true, s.files.Sums[0]: true, string(p.Key): true, hex.EncodeToString(p.Key): true}
	b, err := q.MarshalBinary()
	require.NoError(t, err)
	found.point(t, b)
	for i, row := range rows[:100] {
		for _, v := range append(row, labels[i]) {
			found.number(v)
		}
	}
	require.Empty(t, found.in(text))
}
