// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package privopt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words of the three papers that readers search for.
const paperWords = `A_NSGD|A_ProxGD|A_ObjP|OPDisc|OPSamp|RSPM|separator set|interpolation|Theorem 3.2|Theorem 4.4
Theorem 11|Lemma 4|Lemma 10|Algorithm 1|Algorithm 2|Algorithm 3|Algorithm G.2|Table G.4|Appendix G.3
§5.2|Figure 1|LOP|LOP-Clip|QOP|anchor|Wishart|degrees of freedom|curvature|Moreau envelope
SVRG|three-operator splitting|uniform stability|mini-batch SGD|noisy SGD|oracle|halfspace
sign cube|objective perturbation|output perturbation|linear perturbation|quadratic perturbation
common minimizer|utility bound|population|excess|hockey-stick|replace|add-remove|neighbors
Gaussian|certificate|exact search|lattice|0/1 loss|least squares|logistic|Huber|ridge|clip|box
half-width|stochastic|tilt|separate|exponential mechanism|[CC26]|[NRVW20]|[BFTT19]|[KST12]|[CMS11]`

// TestPaperWords: who searches for a word of the papers finds it in the documentation and in a
// comment of the code.
func TestPaperWords(t *testing.T) {
	var docs, comments strings.Builder
	require.NoError(t, filepath.WalkDir("docs", func(name string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".md") {
			return err
		}
		text, err := os.ReadFile(name)
		docs.Write(text)
		return err
	}))
	sources(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for line := range strings.Lines(text) {
			if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
				comments.WriteString(comment)
			}
		}
	})
	join := func(b *strings.Builder) string { return strings.Join(strings.Fields(b.String()), " ") }
	inDocs, inComments := join(&docs), join(&comments)
	list := strings.FieldsFunc(paperWords, func(r rune) bool { return r == '|' || r == '\n' })
	require.GreaterOrEqual(t, len(list), 60)
	for _, word := range list {
		if !strings.Contains(inDocs, word) {
			t.Errorf("no page of docs has %q", word)
		}
		if !strings.Contains(inComments, word) {
			t.Errorf("no comment has %q", word)
		}
	}
}
