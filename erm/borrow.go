// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/loss"
)

// Borrow returns data whose rows stay in the n×d matrix x, for arrays so large that the copy of
// [NewDataDense] takes more time or memory than the fit. It keeps 16 bytes for each record, and a
// copy of no row. The records keep the order of x, and sums have the bits of [Open] over them; a
// matrix of the records in canonical order, see [Canonical], gives the bits of NewDataDense.
//
// x must not change while the data are in use. Every sum that the certificate of a minimizer rests
// on is computed together with a fingerprint of the rows: if it is not that of Borrow, the error is
// [ErrSource], and nothing is released. Methods that take single records, such as sco.NoisySGD,
// force each of them into the bounds again.
//
// Rows outside the bounds, rows with −0, and all rows if x has a larger stride than columns, are
// copied in every pass, 512 at a time. x is never written to.
//
// Borrow returns an error wrapping [ErrData] if the public shape is wrong, as NewDataDense does.
func Borrow(x mat.RawMatrixer, labels []float64, b loss.Bounds) (*Data, error) {
	if v := reflect.ValueOf(x); x == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: the matrix of rows is nil", ErrData)
	}
	raw := x.RawMatrix()
	n, d := raw.Rows, raw.Cols
	if err := checkShape(n, len(labels), b); err != nil {
		return nil, err
	}
	if n == 0 || d == 0 {
		return nil, fmt.Errorf("%w: a matrix of %d rows and %d columns, want at least one of both, or Empty", ErrData, n, d)
	}
	v := &borrowed{
		rows: raw.Data, stride: raw.Stride, d: d,
		y: make([]float64, n), norm: make([]float64, n), plain: make([]bool, (n+grain-1)/grain),
	}
	for i, label := range labels {
		v.y[i] = forceLabel(label, b.Label)
	}
	data, err := Open(v, b)
	if err != nil {
		return nil, err
	}
	r := data.r()
	r.src.view = v
	p := &pass{query: query{ask: askPrint, mult: multipliersOf(r.src.key, d), grain: grain}, ctx: context.Background(),
		data: r}
	kernel.Each(len(v.plain), 0, parts(func(k int) {
		v.measure(r, k)
		p.addView(v, k*grain, min((k+1)*grain, n))
	}))
	if err := p.err.Load(); err != nil {
		return nil, *err
	}
	return data, r.src.same(p.fingerprint)
}

// borrowed are records whose rows belong to the caller.
type borrowed struct {
	rows      []float64
	stride, d int
	y, norm   []float64 // inside the bounds
	plain     []bool    // of 512 records each: the rows as they are may be used
}

// Dims implements Source.
func (v *borrowed) Dims() (records, features int) { return len(v.y), v.d }

// Read implements Source.
func (v *borrowed) Read(_ context.Context, rows, labels []float64, first int) error {
	for i := range labels {
		copy(rows[i*v.d:(i+1)*v.d], v.rows[(first+i)*v.stride:])
	}
	copy(labels, v.y[first:])
	return nil
}

// asTheyAre reports whether the rows of the records [lo, hi) may be used as they are.
func (v *borrowed) asTheyAre(lo, hi int) bool {
	return !slices.Contains(v.plain[lo/grain:(hi+grain-1)/grain], false)
}

// slab returns records whose rows may be used as they are. Nothing may be written to the rows.
func (v *borrowed) slab(lo, hi int) slab {
	return slab{x: v.rows[lo*v.d : hi*v.d : hi*v.d], y: v.y[lo:hi], norm: v.norm[lo:hi]}
}

// measure computes the norms of 512 records, and whether their rows may be used as they are.
func (v *borrowed) measure(r *records, k int) {
	row, scratch := make([]float64, v.d), make([]float64, v.d)
	inside, plain := false, v.stride == v.d
	for i := k * grain; i < min((k+1)*grain, len(v.y)); i++ {
		from := v.rows[i*v.stride:][:v.d]
		copy(row, from)
		v.norm[i], inside = r.force(row, scratch)
		plain = plain && inside
		for _, a := range from {
			plain = plain && math.Float64bits(a) != 1<<63 // −0
		}
	}
	v.plain[k] = plain
}

// addView adds the sums over the borrowed records [lo, hi) to p. lo is a multiple of 512.
func (p *pass) addView(v *borrowed, lo, hi int) {
	var fingerprint [2]uint64
	own := windows.Get().(*window)
	defer windows.Put(own)
	// Another window, because those of the pool are written to.
	view := &window{rec: records{d: v.d, shift: oneSlab, slabs: make([]slab, 1), bounds: p.data.bounds}}
	for at := lo; at < hi; at += p.grain {
		w, n := view, min(p.grain, hi-at)
		if v.asTheyAre(at, at+n) {
			view.rec.n, view.rec.floatsOnce = n, n*v.d
			view.rec.slabs[0] = v.slab(at, at+n)
		} else if err := p.data.src.read(p.ctx, own, p.data, at, n); err != nil {
			p.err.CompareAndSwap(nil, &err)
			return
		} else {
			w = own
		}
		if p.ask&askPrint != 0 {
			sum := w.fingerprint(p.mult)
			fingerprint[0], fingerprint[1] = fingerprint[0]+sum[0], fingerprint[1]+sum[1]
		}
		if p.ask != askPrint {
			p.addGrain(&w.rec, 0, n)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fingerprint[0] += fingerprint[0]
	p.fingerprint[1] += fingerprint[1]
}
