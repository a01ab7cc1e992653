// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package proxtest_test

import (
	"fmt"

	"github.com/privopt/privopt/prox"
	"github.com/privopt/privopt/prox/proxtest"
)

// counter is a proxtest.T that counts failures. A test passes its *testing.T instead.
type counter struct{ failures int }

func (c *counter) Helper()                   {}
func (c *counter) Errorf(_ string, _ ...any) { c.failures++ }

// late is a faulty ℓ1 norm: its proximal map uses half of the threshold.
type late struct{ prox.L1 }

func (g late) Prox(dst, x []float64, gamma float64) { g.L1.Prox(dst, x, gamma/2) }

// The test of an operator needs one call.
func ExampleCheck() {
	var good, bad counter
	proxtest.Check(&good, prox.L1{Weight: 0.5}, 4)
	proxtest.Check(&bad, late{prox.L1{Weight: 0.5}}, 4)
	fmt.Println(good.failures == 0, bad.failures > 0)
	// Output: true true
}
