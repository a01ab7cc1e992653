// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package screen

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/internal/testkit"
)

// Every line of a text fits, and the words stay what they were, in their order.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-zéδ]{1,12}`)).Draw(t, "words")
		width := rapid.IntRange(least, 2*prose).Draw(t, "width")
		text := strings.Join(words, " ")
		for _, wrapped := range []string{Paragraph("plan  ", text, width), Wrap(text, width), Wrap("  - "+text, width)} {
			for line := range strings.Lines(wrapped) {
				require.LessOrEqual(t, cells(strings.TrimRight(line, "\n")), min(width, prose))
			}
			got := strings.Fields(wrapped)
			require.Equal(t, words, append([]string{}, got[len(got)-len(words):]...))
		}
	})
	require.Equal(t, "one two three four\n\n  a  first second\n     third\n  b  fourth\n\nfive\n",
		Wrap("one two\nthree four\n\n  a  first\n     second third\n  b  fourth\n\nfive", 20))
	require.Equal(t, "  1. Describe the\n     columns in a\n     schema, a file.\n  2. Fit.\n",
		Wrap("  1. Describe the columns\n     in a schema, a file.\n  2. Fit.\n", 21))
	require.Equal(t, "  privopt fit \\\n      --data people.csv \\\n      --epsilon 1\n  privopt version\n",
		Commands("  privopt fit --data people.csv --epsilon 1\n  privopt version", 24))
}

// A table that is too wide becomes several, and no cell is lost.
func TestTable(t *testing.T) {
	rows := [][]string{{"method", "alpha", "beta"}, {"first", "1", "22"}, {"second", "10", "2"}}
	require.Equal(t, "method  alpha  beta\nfirst       1    22\nsecond     10     2\n", Table("lr", rows, 80))
	require.Equal(t, "method  alpha\nfirst       1\nsecond     10\n\nmethod  beta\nfirst     22\nsecond     2\n",
		Table("lr", rows, 18))
	require.Equal(t, "ab…  x\n", Table("l", [][]string{{"abcdefgh", "x"}}, 6))
	require.Equal(t, "job  what there is to say\n     of it\n",
		Table("lt", [][]string{{"job", "what there is to say of it"}}, 25))
	// A name of a file may be as long as the file: a cut in quadratic time would take hours.
	require.Equal(t, "世世…  x\n", Table("l", [][]string{{strings.Repeat("世", 1e6), "x"}}, 8))
	require.Equal(t, "e\u0301e\u0301…  x\n", Table("l", [][]string{{strings.Repeat("e\u0301", 9), "x"}}, 6))
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(40, 140).Draw(t, "width")
		n := rapid.IntRange(1, 12).Draw(t, "columns")
		cell := rapid.StringMatching(`[a-z0-9]{0,18}`)
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, n, n), 1, 4).Draw(t, "rows")
		text := Table("lr", rows, width)
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, cells(line)-1, width)
		}
		for _, r := range rows {
			for _, c := range r {
				require.Contains(t, text, c)
			}
		}
	})
}

// locked is a buffer for several goroutines.
type locked struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Work of unknown length is shown on a terminal, and nowhere else; its line is cleared.
func TestSpin(t *testing.T) {
	var b locked
	end := spin(&b, "fitting", time.Millisecond)
	shown := func() bool { return strings.Contains(b.String(), "\rfitting, ") }
	testkit.Until(shown)
	end()
	end()
	require.True(t, strings.HasSuffix(b.String(), "\r\033[K"))
	var none locked
	Spin(&none, "fitting")()
	require.Empty(t, none.String())
}

func TestFlags(t *testing.T) {
	require.Equal(t, "  --eps E    privacy budget E, of a\n             model\n  --level L  confidence (default 0.95)\n",
		Flags([]Flag{{"--eps E", "privacy budget E, of a model", "0"}, {"--level L", "confidence", "0.95"}}, 40))
	require.NotContains(t, Flags([]Flag{{"--delta D", "budget (default none)", "3"}, {"--x", "y", "-1"}}, 80), "3")
}

func TestSuggest(t *testing.T) {
	words := []string{"plan", "pack", "predict", "fit", "epsilon"}
	for typed, want := range map[string]string{
		"prdict": "predict", "pedrict": "predict", "epsilom": "epsilon", "fti": "fit", "eps": "epsilon", "zzzz": "", "": "",
	} {
		require.Equal(t, want != "", Suggest(typed, words) != "", typed)
		require.Contains(t, Suggest(typed, words), want, typed)
	}
}
