// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package ermtest_test

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/erm/ermtest"
)

// table is a Source in memory with a fault of the given name, or none.
type table struct {
	n     int
	fault string
}

func (s table) Dims() (records, features int) { return s.n, 2 }

func (s table) Read(_ context.Context, rows, labels []float64, first int) error {
	if s.fault != "no range" && (first < 0 || first > s.n-len(labels)) {
		return fmt.Errorf("records from %d of %d", first, s.n)
	}
	for k := range labels {
		i := first + k
		if s.fault == "shifted" && len(labels) < s.n {
			i++
		}
		if s.fault == "forgets the last" && k == len(labels)-1 && k > 0 {
			break
		}
		rows[2*k], rows[2*k+1], labels[k] = float64(i), float64(i%7), float64(i%2)
	}
	return nil
}

// stopped is a faulty Source: once the context of a Read has ended, all later Reads fail too.
type stopped struct {
	table
	err *error
}

func (s stopped) Read(ctx context.Context, rows, labels []float64, first int) error {
	if *s.err == nil {
		*s.err = ctx.Err()
	}
	return cmp.Or(*s.err, s.table.Read(ctx, rows, labels, first))
}

// remote is a Remote that leaves the last records out of its sums.
type remote struct {
	table
	lost int
}

func (s remote) Sum(ctx context.Context, q *erm.Query) (*erm.Sums, error) {
	return q.Sum(ctx, table{n: s.n - s.lost}, 0, s.n-s.lost, 1)
}

func TestCheckSource(t *testing.T) {
	ermtest.CheckSource(t, table{n: 20000})
	ermtest.CheckSource(t, remote{table: table{n: 20000}})
	for _, wrong := range []erm.Source{
		table{20000, "no range"}, table{20000, "shifted"}, table{20000, "forgets the last"},
		stopped{table{n: 20000}, new(error)}, remote{table{n: 20000}, 1},
	} {
		fake := &recorder{TB: t}
		ermtest.CheckSource(fake, wrong)
		require.True(t, fake.failed, "%+v", wrong)
	}
}

// recorder is a testing.TB that records failures instead of failing the test.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Failed() bool          { return r.failed }
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func ExampleCheckSource() {
	var t testing.TB = &recorder{} // a test passes its *testing.T here
	ermtest.CheckSource(t, table{n: 100})
	fmt.Println(t.Failed())
	// Output: false
}
