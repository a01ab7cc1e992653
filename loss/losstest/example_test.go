// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package losstest_test

import (
	"fmt"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/loss/losstest"
)

// printer is a losstest.T that counts failures. A test passes its *testing.T instead.
type printer struct{ failures int }

func (p *printer) Helper()                   {}
func (p *printer) Errorf(_ string, _ ...any) { p.failures++ }

// flat is faulty: it declares half of its Lipschitz constant, so that a mechanism would add half of
// the noise that privacy needs.
type flat struct{ loss.Huber }

func (l flat) Constants(b loss.Bounds, radius float64) loss.Constants {
	c := l.Huber.Constants(b, radius)
	c.Lipschitz /= 2
	return c
}

// The test of a loss needs one call.
func ExampleCheck() {
	var good, bad printer
	losstest.Check(&good, loss.Huber{Delta: 1})
	losstest.Check(&bad, flat{loss.Huber{Delta: 1}})
	fmt.Println(good.failures == 0, bad.failures > 0)
	// Output: true true
}
