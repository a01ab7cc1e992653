// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/table"
)

func init() { gob.Register(&gradientSum{}) }

// gradientSum is a sum of an automatic fit, before noise, for the machines of an erm.Remote. All
// that the fit does between two sums is a function of the outputs so far and of public numbers. So
// these machines repeat the fit from its outputs up to the sum that is next, and compute it over
// their records. What they get has been released, and they draw no noise.
//
// The sensitivity of a sum holds if all records are mapped by one function. Whether a record is
// mapped here or there depends on the others, so all machines have to round alike: Rounding is
// compared, before records are mapped, and also where there are none, so that a refusal tells
// nothing about them.
type gradientSum struct {
	Params   Params
	Schema   []byte // empty without a schema
	Outputs  [][]float64
	Terms    int
	Rounding uint64

	sum []int64 // the result
}

// Size implements erm.Fold.
func (g *gradientSum) Size() int { return g.Terms }

var (
	// errSum ends a fit that is repeated up to a sum.
	errSum = errors.New("model: the sum is computed")

	errRounding = fmt.Errorf("%w: a machine rounds in another way than that of the driver: want one type of processor "+
		"for all, and one program", erm.ErrSource)
)

// Sum implements erm.Fold.
func (g *gradientSum) Sum(ctx context.Context, data *erm.Data) ([]int64, error) {
	pl := &Plan{params: g.Params}
	if len(g.Schema) > 0 {
		s, err := table.ReadSchema(bytes.NewReader(g.Schema))
		if err != nil {
			return nil, err
		}
		if pl.encoder, err = s.Encoder(); err != nil {
			return nil, err
		}
	}
	there := *g
	f := pl.newGradientFit(ctx, data, nil)
	f.there = &there
	if err := f.run(); !errors.Is(err, errSum) {
		return nil, prefix.Errorf("model: a sum that is none of the fit: %w", err)
	}
	return there.sum, nil
}

// total returns the sum that add adds up over all records, of the given length and on the grid
// 2^exponent, or has other machines do it. The terms of records follow from the map, from f.by and
// from numbers.
func (f *gradientFit) total(
	length, exponent int, numbers []float64, add func(total []int64) error,
) ([]int64, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", dp.ErrWithheld, err)
	}
	total := make([]int64, length)
	if f.there != nil && len(f.there.Outputs) > 0 {
		if len(f.there.Outputs[0]) != length { // the fit took another way here
			return nil, errRounding
		}
		return total, nil // release knows the output
	}
	rounding := uint64(0)
	if f.elsewhere || f.there != nil {
		rounding = f.rounding(append([]float64{float64(length), float64(exponent)}, numbers...))
	}
	if !f.elsewhere {
		if f.there != nil && f.there.Rounding != rounding {
			return nil, errRounding
		}
		err := add(total)
		if err == nil && f.there != nil {
			f.there.sum, err = total, errSum
		}
		return total, err
	}
	g := &gradientSum{Params: f.pl.params, Outputs: f.outputs, Terms: length, Rounding: rounding}
	if e := f.pl.encoder; e != nil {
		var text bytes.Buffer
		if _, err := e.Schema().WriteTo(&text); err != nil {
			return nil, err
		}
		g.Schema = text.Bytes()
	}
	return f.data.Fold(f.ctx, g)
}

// rounding returns a hash of all numbers by which a sum maps records, its own ones among them, and
// of results of the functions that map them. The first sequence is chaotic: a rounding that differs
// once, as where products and sums are fused, changes all that follow.
func (f *gradientFit) rounding(numbers []float64) uint64 {
	h := fnv.New64a()
	put := func(list ...float64) { binary.Write(h, binary.LittleEndian, list) } // never fails
	put(f.middle, f.narrowed, f.m, f.entry, f.scale, f.reach, f.kappa, f.unit1)
	for _, list := range [][]float64{f.k, f.factors, f.weights, f.basis, f.shifted, f.h, f.x, f.by, numbers} {
		put(float64(len(list)))
		put(list...)
	}
	x := make([]float64, 64)
	z := 0.3
	for i := range x {
		z = -1.9*z*z + 1 // GOAMD64=v3 fuses sums, not differences
		x[i] = z
		put(z, math.Exp(9*z), math.Log(2+z), math.Pow(2+z, 3*z), math.Hypot(z, 0.7), math.Sqrt(1+z*z))
	}
	put(floats.Norm(x, 2), floats.Dot(x[:37], x[27:]))
	floats.AddScaled(x[:31], math.Pi, x[33:])
	put(x...)
	return h.Sum64()
}

// release adds noise of deviation sigma to a sum of integers times 2^exponent.
func (f *gradientFit) release(terms []int64, exponent int, sigma float64) []float64 {
	if t := f.there; t != nil {
		out := slices.Clone(t.Outputs[0])
		t.Outputs = t.Outputs[1:]
		return out
	}
	s := fault.At(f.faults, fault.Release, fault.Sum{Terms: terms, Exponent: exponent, Sigma: sigma, Ratio: f.ratio})
	out := withNoise(s.Terms, s.Sigma, s.Exponent, f.src)
	if f.elsewhere {
		f.outputs = append(f.outputs, slices.Clone(out))
	}
	return out
}
