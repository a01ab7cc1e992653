// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSecurityNamesTests: every test that SECURITY.md names exists, and every weak
// point from S1 to S17 has a line.
func TestSecurityNamesTests(t *testing.T) {
	text, err := fs.ReadFile(testRoot, "SECURITY.md")
	require.NoError(t, err)
	sources := map[string]string{}
	named := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(named), 30)
	for _, m := range named {
		dir := m[1]
		if dir == "privopt" {
			dir = "."
		}
		if sources[dir] == "" {
			files, err := fs.Glob(testRoot, strings.TrimPrefix(dir+"/*_test.go", "./"))
			require.NoError(t, err)
			for _, f := range files {
				body, err := fs.ReadFile(testRoot, f)
				require.NoError(t, err)
				sources[dir] += string(body)
			}
		}
		require.Contains(t, sources[dir], "func "+m[2]+"(", "%s", m[0])
	}
	for i := range 17 {
		require.Contains(t, string(text), fmt.Sprintf("\n| S%d |", i+1))
	}
}
