// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestSuggestions: a mistyped command or flag gets a question.
func TestSuggestions(t *testing.T) {
	for args, want := range map[string]string{
		"fti": "did you mean fit?", "sumary x": "did you mean summary?", "ledger shwo l": "did you mean show?",
		"fit --epsilom 1": "did you mean --epsilon?", "plan -shema x": "did you mean --schema?",
	} {
		code, _, errs := call(t, "", strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Contains(t, errs, want, args)
	}
	_, _, errs := call(t, "", "zzzzzz")
	require.NotContains(t, errs, "did you mean")
}

// TestHelpTexts: the texts of commands and flags, in help and in completion, have neither marks of
// the source nor values that nobody can use.
func TestHelpTexts(t *testing.T) {
	code, out, _ := call(t, "", "-h")
	require.Zero(t, code)
	require.LessOrEqual(t, strings.Count(out, "\n"), 24)
	var walk func(c *cobra.Command, path []string)
	walk = func(c *cobra.Command, path []string) {
		code, out, errs := call(t, "", append(path, "-h")...)
		require.Zero(t, code, errs)
		require.NotContains(t, out, "(default -1)", path)
		require.NotContains(t, out, "`", path)
		require.Contains(t, out, "Examples:\n  ", path)
		_, out, _ = call(t, "", append(append([]string{"__complete"}, path...), "")...)
		require.NotContains(t, out, "no-help")
		_, out, _ = call(t, "", append(append([]string{"__complete"}, path...), "--")...)
		require.NotContains(t, out, "`", path)
		for _, s := range c.Commands() {
			walk(s, append(append([]string{}, path...), s.Name()))
		}
	}
	walk((&app{}).root(), nil)
}

// TestMan: the manual page of every command has its sections, its flags and no line that is taken
// for a request by mistake.
func TestMan(t *testing.T) {
	for _, c := range []string{"", "fit", "schema", "ledger", "ledger create", "score", "summary", "man"} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"man"}, strings.Fields(c)...), nil, &out, &errs)
		require.Equal(t, 0, code, errs.String())
		page := out.String()
		name := strings.TrimSuffix("privopt-"+strings.ReplaceAll(c, " ", "-"), "-")
		title := ".TH " + strings.ToUpper(strings.ReplaceAll(name, "-", `\-`)) + " 1\n"
		require.True(t, strings.HasPrefix(page, title), page[:40])
		for _, line := range strings.Split(page, "\n") {
			require.Regexp(t, `^(|[^.'].*|\.(TH|SH|TP|PP|B|nf|fi)( .*)?)$`, line)
		}
		_, help, _ := call(t, "", append(strings.Fields(c), "-h")...)
		for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z]+)`).FindAllStringSubmatch(help, -1) {
			require.Contains(t, page, strings.ReplaceAll(flag[1], "-", `\-`), c)
		}
	}
	code, _, errs := call(t, "", "man", "nothing")
	require.Equal(t, exitUsage, code, errs)
}
