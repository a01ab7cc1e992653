// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Numbers of the search for columns whose range is far too wide, fixed on made-up data. Logarithms
// are those of distances from the center over half of the range.
const (
	widthRounds   = 3
	widthShare    = 0.01 // at most, of logarithms; twice that for columns that look too wide
	widthAim      = -2.5 // mean logarithm of a scaled column; a range of six deviations has −1.7
	widthReach    = 8    // least logarithm, below 0, that the first round tells apart
	widthNear     = 5    // the same afterwards
	widthNoise    = 0.3  // of a logarithm: in the first round, less buys nothing
	widthHidden   = 0.06 // of that noise at the whole budget, at which the first round has half of its share
	widthPrior    = 0.05 // density of logarithms below widthAim, over that of others
	widthDoubt    = 0.5  // logarithm of a factor up to which a range is as it should be
	widthSettled  = 0.3  // the same afterwards
	aimed         = 0.15 // deviation of a scaled column, over half of the range
	recenterNoise = 0.03 // of a new center, over that deviation, below which less buys nothing
	recenterShare = 0.02 // at most
	endNoise      = 0.15 // of the share of numbers at an end of their range, below which less buys nothing
	endShare      = 0.7  // of such numbers from which on a column keeps its units
	farEdge       = 0.6  // of half the range, beyond which a scaled number is far
	farShare      = 0.05 // of far numbers from which on a column counts as mostly 0 with some large numbers
	farPrior      = 0.1  // mean of that share before
	farBack       = 2    // logarithm of a factor that a round takes back
	farSure       = 0.9  // probability for which it does before the last round
	farHardly     = 0.05 // probability up to which a column is settled
)

// A column of numbers.
type column struct {
	j         int     // coordinate
	half      float64 // of the range, in units of the rows
	share     float64 // of far numbers, by all rounds with this factor
	precision float64 // of it
	far       bool    // surely has far numbers: its factor only falls
}

// widths sets the factors of columns whose range is far too wide: they would be lost in the noise
// of the matrix. Columns from 0 to 1 keep their units, because they may be flags that hardly any
// record has. The first round finds the columns at which later ones look more closely, around
// new centers. A column of many zeros and a few large numbers looks too wide, too, but for the
// share of its scaled numbers that are far.
func (f *gradientFit) widths() error {
	if f.pl.encoder == nil {
		return nil
	}
	var columns []column
	j := 0
	for c, feature := range f.pl.encoder.Features() {
		if c == f.icept {
			continue
		}
		for _, s := range f.pl.encoder.Schema().Columns {
			if s.Name == feature.Name && s.Bins == nil && s.Min != nil && s.Max != nil && (*s.Min != 0 || *s.Max != 1) {
				columns = append(columns, column{j: j, half: feature.Scale * f.coded * (*s.Max - *s.Min) / 2})
			}
		}
		j++
	}
	for round := 0; round < widthRounds && len(columns) > 0; round++ {
		f.by = nil
		for _, c := range columns {
			f.by = append(f.by, float64(c.j), c.half)
		}
		var err error
		if round > 0 {
			columns, err = f.rescale(columns, round == widthRounds-1)
		} else if columns, err = f.suspects(columns); err == nil {
			columns, err = f.inside(columns)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// logarithm returns that of the distance of a scaled number from the center.
func (c column) logarithm(row []float64) float64 {
	return math.Log(max(math.Abs(row[c.j])/c.half, math.SmallestNonzeroFloat64))
}

// suspects releases the mean logarithms of all columns, and returns those whose range looks too
// wide, with factors.
func (f *gradientFit) suspects(columns []column) (wide []column, err error) {
	row, most := make([]float64, f.p), math.Sqrt(float64(len(columns)))
	hidden := widthReach / 2 * most * f.unit // noise of a logarithm at the whole budget
	share := min(math.Pow(hidden/widthNoise, 2), widthShare/(1+math.Pow(hidden/widthHidden, 4)))
	mean, noise, err := f.sum(len(columns), most, share, func(dst []float64, w float64, r record) {
		f.apart(row, r.a)
		for i, c := range columns {
			dst[i] += w * scaled(c.logarithm(row), -widthReach, 0)
		}
	})
	if err != nil {
		return nil, err
	}
	for i, c := range columns {
		up := expected(mean[i], noise, -widthReach, 0, func(log float64) (prior, v float64) {
			if log < widthAim {
				return widthPrior, widthAim - log
			}
			return 1, 0
		})
		if up > widthDoubt {
			f.factors[c.j] = math.Exp(up)
			wide = append(wide, c)
		}
	}
	return wide, nil
}

// inside releases the shares of numbers at an end of their range, and returns the columns that do
// not mostly lie there. The others keep their units.
func (f *gradientFit) inside(columns []column) (next []column, err error) {
	if len(columns) == 0 {
		return nil, nil
	}
	row, most := make([]float64, f.p), math.Sqrt(float64(len(columns)))
	share := min(math.Pow(most*f.unit/endNoise, 2), widthShare)
	mean, noise, err := f.sum(len(columns), most, share, func(dst []float64, w float64, r record) {
		f.apart(row, r.a)
		for i, c := range columns {
			at := -1.0
			if math.Abs(row[c.j]/f.factors[c.j]+f.k[c.j]) > c.half*(1-0x1p-20) {
				at = 1
			}
			dst[i] += w * at
		}
	})
	if err != nil {
		return nil, err
	}
	for i, c := range columns {
		p := expected(mean[i], noise, 0, 1, func(share float64) (prior, high float64) {
			if share > endShare {
				high = 1
			}
			return 1, high
		})
		if p > 0.5 {
			f.factors[c.j] = 1
		} else {
			next = append(next, c)
		}
	}
	return next, nil
}

// rescale moves the centers of the columns, releases mean logarithms and shares of far numbers, and
// sets the factors. It returns the columns whose factor may not be right yet.
func (f *gradientFit) rescale(columns []column, last bool) (next []column, err error) {
	if f.icept >= 0 {
		if err := f.recenter(columns); err != nil {
			return nil, err
		}
	}
	row, m := make([]float64, f.p), len(columns)
	most := math.Sqrt(float64(2 * m))
	share := min(math.Pow(widthNear*most*f.unit/widthNoise, 2), 2*widthShare)
	edge := math.Log(farEdge)
	mean, noise, err := f.sum(2*m, most, share, func(dst []float64, w float64, r record) {
		f.apart(row, r.a)
		for i, c := range columns {
			log := c.logarithm(row)
			dst[i] += w * scaled(log, -widthNear, 0)
			dst[m+i] += w * scaled(log, edge, edge+1)
		}
	})
	if err != nil {
		return nil, err
	}
	for i, c := range columns {
		v := 1 / (noise * noise)
		c.share = (c.share*c.precision + mean[m+i]*v) / (c.precision + v)
		c.precision += v
		p := expected(c.share, 1/math.Sqrt(c.precision), 0, 1, func(share float64) (prior, far float64) {
			if share >= farShare {
				far = 1
			}
			return math.Exp(-share / farPrior), far
		})
		up := expected(mean[i], noise, -widthNear, 0, func(log float64) (prior, v float64) {
			return 1, max(-math.Log(f.factors[c.j]), widthAim-log)
		})
		c.far = c.far || p > farSure
		if c.far || p > 0.5 {
			up = min(up, 0)
		}
		if p > farSure || last {
			up -= p * farBack
			c.share, c.precision = 0, 0
		}
		f.factors[c.j] = max(1, f.factors[c.j]*math.Exp(up))
		if up > widthSettled || p > farHardly {
			next = append(next, c)
		}
	}
	return next, nil
}

// recenter moves the centers of the columns.
func (f *gradientFit) recenter(columns []column) error {
	m, row := float64(len(columns)), make([]float64, f.p)
	radius := 3 * aimed * math.Sqrt(m)
	share := min(math.Pow(radius*f.unit/(recenterNoise*aimed), 2), recenterShare)
	mean, noise, err := f.sum(len(columns), radius, share, func(dst []float64, w float64, r record) {
		f.apart(row, r.a)
		square := 0.0
		for _, c := range columns {
			square += math.Pow(row[c.j]/c.half, 2)
		}
		w *= min(1, radius/max(math.Sqrt(square), math.SmallestNonzeroFloat64))
		for i, c := range columns {
			dst[i] += w * row[c.j] / c.half
		}
	})
	if err != nil {
		return err
	}
	if square := floats.Dot(mean, mean); square > 0 {
		part := max(0, 1-m*noise*noise/square)
		for i, c := range columns {
			f.k[c.j] += part * mean[i] * c.half / f.factors[c.j]
		}
	}
	return nil
}

// scaled maps the numbers from lo to hi to those from −1 to 1, and others to the nearest of these.
func scaled(v, lo, hi float64) float64 { return 2*(min(max(v, lo), hi)-lo)/(hi-lo) - 1 }

// expected returns the expectation of a function of a number from lo to hi whose scaled value was
// measured with normal noise. The function of returns the density before, and the value.
func expected(measured, noise, lo, hi float64, of func(x float64) (prior, v float64)) float64 {
	const steps = 64
	sum, total := 0.0, math.SmallestNonzeroFloat64
	for i := range steps + 1 {
		at := 2*float64(i)/steps - 1
		prior, v := of(lo + (hi-lo)*(at+1)/2)
		w := prior * math.Exp(-0.5*math.Pow((measured-at)/noise, 2))
		sum, total = sum+w*v, total+w
	}
	return sum / total
}
