// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// outside are the ways in which a page loads something or runs something.
var outside = regexp.MustCompile(`(?i)<(script|link|img|iframe|object|embed|base)\b|` +
	`\b(src|href|srcset)=|url\(|@import|` +
	`\bon[a-z]+="|javascript:`)

// checkPage checks that a page is well-formed, stands alone and can be read by a screen reader.
func checkPage(t *testing.T, page string) {
	t.Helper()
	require.True(t, strings.HasPrefix(page, "<!DOCTYPE html>\n<html lang=\"en\">"), page[:min(len(page), 60)])
	require.LessOrEqual(t, len(page), 500_000)
	require.Empty(t, outside.FindString(page))
	require.NotContains(t, page, "NaN")
	require.NotContains(t, page, "Inf\"")
	require.NotContains(t, page, "ZgotmplZ", "the template refused a value")
	d := xml.NewDecoder(strings.NewReader(regexp.MustCompile(`<meta [^>]*`).ReplaceAllString(page, "$0/"))) // void
	d.Entity = xml.HTMLEntity
	seen, level, named := map[string]bool{}, 0, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attributes := map[string]string{}
		for _, a := range e.Attr {
			attributes[a.Name.Local] = a.Value
			if a.Name.Local == "points" || a.Name.Local == "cx" || a.Name.Local == "cy" {
				for _, v := range strings.FieldsFunc(a.Value, func(r rune) bool { return r == ' ' || r == ',' }) {
					x, err := strconv.ParseFloat(v, 64)
					require.NoError(t, err)
					require.False(t, x < -1 || x > 2000, "%s outside its picture", v)
				}
			}
		}
		if id := attributes["id"]; id != "" {
			require.False(t, seen[id], "the id %s twice", id)
			seen[id] = true
		}
		switch name := e.Name.Local; name {
		case "h1", "h2", "h3":
			require.LessOrEqual(t, int(name[1]-'0'), level+1, "a heading skips a level")
			level = int(name[1] - '0')
		case "svg":
			require.NotEmpty(t, attributes["aria-label"])
			require.Equal(t, "img", attributes["role"])
			named++
		case "th":
			require.Contains(t, []string{"row", "col"}, attributes["scope"])
		}
	}
	require.Positive(t, named, "no picture")
	for _, id := range []string{"asked", "guaranteed", "coefficients", "score", "budgets", "ledger", "certificate",
		"reproduce"} {
		require.True(t, seen[id], id)
	}
}

// TestReport writes reports on all four kinds of models, with and without intervals.
func TestReport(t *testing.T) {
	at := folder(t)
	write := func(name, text string) { require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600)) }
	persons := strings.Replace(people, `"intercept"`, `"person": "who", "rows": 2, "intercept"`, 1)
	write("who.json", persons)
	write("who.csv", withIDs(rows(800, true)))
	squares := strings.NewReplacer(`{"column": "pays", "positive": ["yes"], "negative": ["no"]}`,
		`{"column": "age", "min": 20, "max": 80}`, `{"name": "age", "min": 20, "max": 80}`,
		`{"name": "pays", "levels": ["yes", "no"]}`).Replace(people)
	write("age.json", squares)
	write("jobs.json", strings.NewReplacer(`{"column": "pays", "positive": ["yes"], "negative": ["no"]}`,
		`{"column": "job", "levels": ["nurse", "pilot", "<b>&\"baker"], "unknown": "nurse"}`,
		`{"name": "job", "levels": ["nurse", "pilot"], "other": true}`,
		`{"name": "pays", "levels": ["yes", "no"]}`, `"max": 80}`, `"max": 80, "bins": [30, 50]}`).Replace(people))
	ok := func(args ...string) string {
		t.Helper()
		code, out, errs := call(t, "", args...)
		require.Equal(t, 0, code, errs)
		return out
	}
	var pages []string
	for _, c := range []struct {
		schema, data string
		more, want   []string
	}{
		{"people.json", "people.csv", nil, []string{"whether pays is “yes” rather than “no”", "No intervals were released"}},
		{"people.json", "people.csv", []string{"--intervals"}, []string{"Debiased", "age, 20 to 80"}},
		{"wide.json", "people.csv", nil, []string{"the largest 16 of 63", "the first 30 levels"}},
		{"age.json", "people.csv", nil, []string{"the number age, between 20 and 80"}},
		{"age.json", "people.csv", []string{"--intervals"}, []string{"Lower 95\u00a0%", "A positive coefficient raises"}},
		{"jobs.json", "people.csv", nil, []string{"which of 3 classes", "Coefficients of nurse", "&lt;b&gt;&amp;",
			"[30,50)"}},
		{"who.json", "who.csv", nil, []string{"each person, with all lines of that person; at most 2 of them count"}},
		{"who.json", "who.csv", []string{"--intervals", "--neighbors", "add-remove"}, []string{"the exact number is " +
			"protected"}},
	} {
		ok(append([]string{"fit", "--schema", at(c.schema), "--data", at(c.data), "--epsilon", "1", "--force", "--out",
			at("m.json")}, c.more...)...)
		page := ok("report", "--model", at("m.json"), "--out", "-")
		checkPage(t, page)
		for _, want := range c.want {
			require.Contains(t, page, want, c.schema)
		}
		require.NotContains(t, page, "NOT PRIVATE")
		require.Equal(t, page, ok("report", "--model", at("m.json"), "--out", "-"), "not the same twice")
		if c.more != nil || c.schema == "wide.json" || c.schema == "jobs.json" {
			pages = append(pages, page)
		}
	}
	t.Run("widths in a browser", func(t *testing.T) { checkWidths(t, pages) })
}

// checkWidths shows pages in Chromium, 400 and 1200 pixels wide: none may be wider than its window.
func checkWidths(t *testing.T, pages []string) {
	t.Helper()
	var browser string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no chromium, chromium-browser or google-chrome in PATH: the widths of the pages are not checked")
	}
	frames := `<!DOCTYPE html><title>frames</title>`
	pages = append(pages, `<p style="width: 2000px">too wide`) // shows that the check can fail
	for _, page := range pages {
		for _, width := range []string{"400", "1200"} {
			frames += `<iframe style="border: 0; width: ` + width + `px" srcdoc="` + html.EscapeString(page) + `"></iframe>`
		}
	}
	frames += `<script>onload = () => { document.body.innerHTML = Array.from(document.querySelectorAll("iframe"),
		f => f.contentDocument.documentElement).map(d => d.scrollWidth - d.clientWidth).join(" ") }</script>`
	path := filepath.Join(t.TempDir(), "frames.html")
	require.NoError(t, os.WriteFile(path, []byte(frames), 0o600))
	run := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+path)
	out, err := run.Output()
	require.NoError(t, err)
	_, body, _ := strings.Cut(string(out), "<body>")
	body, _, _ = strings.Cut(body, "</body>")
	widths := strings.Fields(body)
	require.Len(t, widths, 2*len(pages), body)
	last := len(widths) - 2
	for i := range last {
		require.Equal(t, "0", widths[i], "page %d, %s pixels wide", i/2, []string{"400", "1200"}[i%2])
	}
	for _, w := range widths[last:] {
		n, err := strconv.Atoi(w)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, 800)
	}
}

// withIDs gives each two lines of a table one id.
func withIDs(table string) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		id := "who"
		if i > 0 {
			id = "p" + strconv.Itoa(i%400)
		}
		b.WriteString(id + "," + line + "\n")
	}
	return b.String()
}

// TestReportOfScoreAndLedger shows releases only, and refuses what does not belong to the model.
func TestReportOfScoreAndLedger(t *testing.T) {
	at := folder(t)
	ok := func(args ...string) string {
		t.Helper()
		code, out, errs := call(t, "", args...)
		require.Equal(t, 0, code, errs)
		return out
	}
	bad := func(code int, want string, args ...string) {
		t.Helper()
		got, _, errs := call(t, "", append([]string{"report"}, args...)...)
		require.Equal(t, code, got, errs)
		require.Contains(t, errs, want)
	}
	ok("ledger", "create", at("l"), "--epsilon", "8", "--delta", "1e-4")
	fit := []string{"fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "1", "--out"}
	ok(append(fit, at("m.json"), "--ledger", at("l"))...)
	ok(append(fit, at("free.json"))...)
	ok(append(fit, at("seeded.json"), "--seed", "1")...)
	score := []string{"score", "--model", at("m.json"), "--data", at("people.csv"), "--json"}
	require.NoError(t, os.WriteFile(at("s.json"), []byte(ok(append(score, "--epsilon", "2")...)), 0o600))
	require.NoError(t, os.WriteFile(at("raw.json"), []byte(ok(score...)), 0o600))

	ok("report", "--model", at("m.json"), "--score", at("s.json"), "--ledger", at("l"), "--out", at("r.html"))
	text, err := os.ReadFile(at("r.html"))
	require.NoError(t, err)
	checkPage(t, string(text))
	for _, want := range []string{"share of right predictions", "ROC curve", "Calibration", "It has 1 entry, is " +
		"intact", "400 records"} {
		require.Contains(t, string(text), want)
	}
	require.Contains(t, ok("report", "--model", at("seeded.json"), "--out", "-"), "A model (not private) of pays")

	bad(exitUsage, "exists", "--model", at("m.json"), "--out", at("r.html"))
	bad(exitUsage, "is not a private score", "--model", at("m.json"), "--score", at("raw.json"), "--out", "-")
	bad(exitUsage, "is not a private score", "--model", at("m.json"), "--score", at("m.json"), "--out", "-")
	bad(exitUsage, "is not a private score", "--model", at("m.json"), "--score", at("people.csv"), "--out", "-")
	bad(exitRefused, "without a ledger", "--model", at("free.json"), "--ledger", at("l"), "--out", "-")
	bad(exitUsage, "a report is HTML", "--model", at("m.json"), "--json", "--out", "-")
	ok("report", "--model", at("m.json"), "--out", at("r.html"), "--force")

	// A score belongs to the bytes of a model, and a ledger knows the bytes of the score.
	paid := []string{"score", "--model", at("m.json"), "--data", at("people.csv"), "--epsilon", "2", "--ledger", at("l"),
		"--out"}
	ok(append(paid, at("paid.json"))...)
	require.Contains(t, ok("ledger", "verify", at("l"), at("m.json"), at("paid.json")), "it paid for all 2 files")
	require.Contains(t, ok("report", "--model", at("m.json"), "--score", at("paid.json"), "--ledger", at("l"), "--out",
		"-"), "The same ledger paid for this score.")
	model, of := must(os.ReadFile(at("m.json"))), must(os.ReadFile(at("paid.json")))
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(model)))
	require.Contains(t, of, `"model": "`+digest+`"`)
	require.NoError(t, os.WriteFile(at("other.json"), []byte(strings.Replace(model, "{", "{ ", 1)), 0o600))
	bad(exitRefused, "exchanged or edited", "--model", at("free.json"), "--score", at("paid.json"), "--out", "-")
	bad(exitRefused, "exchanged or edited", "--model", at("other.json"), "--score", at("paid.json"), "--out", "-")
	better := strings.Replace(of, `"value": 0.`, `"value": 0.9`, 1)
	require.NotEqual(t, of, better)
	require.NoError(t, os.WriteFile(at("better.json"), []byte(better), 0o600))
	bad(exitRefused, "edited, or is a second release", "--model", at("m.json"), "--score", at("better.json"), "--ledger",
		at("l"), "--out", "-")
	code, _, errs := call(t, "", "ledger", "verify", at("l"), at("better.json"))
	require.Equal(t, exitRefused, code, errs)
	for _, edit := range []*strings.Replacer{strings.NewReplacer(digest, digest[1:]), strings.NewReplacer(`"score": 1`,
		`"score": 2`), strings.NewReplacer(`"private": true`, `"private": false`), strings.NewReplacer(`"records"`,
		`"more": 1, "records"`)} {
		require.NoError(t, os.WriteFile(at("e.json"), []byte(edit.Replace(of)), 0o600))
		bad(exitUsage, "is not a private score", "--model", at("m.json"), "--score", at("e.json"), "--out", "-")
	}
}

// TestReportDetection: between the corners of the picture the bound of explain is a line.
func TestReportDetection(t *testing.T) {
	for _, b := range []dp.Budget{{Epsilon: 1}, {Epsilon: 0.1, Delta: 1e-6}, {Epsilon: 5, Delta: 0.1}} {
		at := corners(b)
		for i := range at[1:] {
			for _, w := range []float64{0.1, 0.5, 0.9} {
				got := power(b, (1-w)*at[i]+w*at[i+1])
				require.InDelta(t, (1-w)*power(b, at[i])+w*power(b, at[i+1]), got, 1e-12) // rounding of doubles
			}
		}
	}
}
