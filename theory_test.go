package privopt_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheoryIsComplete: docs/theory.md names files that exist and every identifier of a
// theorem that the mechanisms state, and CHANGELOG names those identifiers too.
func TestTheoryIsComplete(t *testing.T) {
	root := testRoot
	theory, err := fs.ReadFile(root, "docs/theory.md")
	require.NoError(t, err)
	changelog, err := fs.ReadFile(root, "CHANGELOG.md")
	require.NoError(t, err)
	files := regexp.MustCompile("`([a-z/]+\\.go)`").FindAllStringSubmatch(string(theory), -1)
	require.Greater(t, len(files), 30)
	for _, m := range files {
		_, err := fs.Stat(root, m[1])
		require.NoError(t, err)
	}
	// rspm-…/2 in the table stands for three identifiers.
	text := strings.ReplaceAll(string(theory), "objpert.rspm-…/2", "objpert.rspm-laplace/2`, `objpert.rspm-gaussian/2`, `objpert.rspm-sigma/2")
	constant := regexp.MustCompile(`\bTheorem[A-Za-z0-9]*\s*=\s*"([a-z0-9./-]+/[0-9]+)"`)
	found := 0
	for _, dir := range []string{"internal/linear", "qop", "sco", "objpert", "model"} {
		sources, err := fs.Glob(root, dir+"/*.go")
		require.NoError(t, err)
		for _, name := range sources {
			source, err := fs.ReadFile(root, name)
			require.NoError(t, err)
			for _, m := range constant.FindAllStringSubmatch(string(source), -1) {
				id := m[1]
				require.Contains(t, text, "`"+id, "%s of %s", id, name)
				require.Contains(t, string(changelog), "`"+id, "%s of %s", id, name)
				found++
			}
		}
	}
	require.Greater(t, found, 30)
}
