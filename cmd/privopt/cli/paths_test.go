// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// paid returns a folder with all that commands read: a ledger, tables, schemas, models and a score.
func paid(t *testing.T) (at func(name string) string) {
	at = folder(t)
	for _, args := range [][]string{
		{"ledger", "create", at("l"), "--epsilon", "90", "--delta", "1e-3"},
		{"fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "2", "--ledger", at("l"), "--out",
			at("m.json")},
		{"fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "1", "--out", at("other.json")},
		{"score", "--model", at("m.json"), "--data", at("people.csv"), "--epsilon", "2", "--ledger", at("l"), "--out",
			at("s.json")},
		{"pack", "--schema", at("people.json"), "--data", at("people.csv"), "--out", at("p.npy")},
	} {
		code, _, errs := call(t, "", args...)
		require.Equal(t, 0, code, errs)
	}
	require.NoError(t, os.WriteFile(at("partial.json"), []byte(`{"label": {"column": "pays"}}`), 0o600))
	return at
}

// writers are command lines with an output OUT, by name, in a folder of paid.
var writers = map[string]string{
	"fit":        "fit --schema people.json --data people.csv --epsilon 1 --ledger l --out OUT --force",
	"fit packed": "fit --schema people.json --data p.npy --epsilon 1 --ledger l --out OUT --force",
	"fit search": "fit --data people.csv --label pays --task two-classes --partial partial.json --epsilon 3 " +
		"--delta 1e-6 --ledger l --out OUT --force",
	"predict": "predict --model m.json --data people.csv --out OUT --force",
	"pack":    "pack --schema people.json --data people.csv --out OUT --force",
	"score":   "score --model m.json --compare other.json --data people.csv --epsilon 2 --ledger l --out OUT",
	"plot":    "score --model m.json --compare other.json --data people.csv --epsilon 2 --ledger l --plot OUT",
	"report":  "report --model m.json --score s.json --ledger l --out OUT --force",
	"summary": "summary m.json --plot OUT",
	"schema":  "schema --public people.csv --out OUT --force",
	"schema search": "schema --private people.csv --label pays --partial partial.json --epsilon 3 --delta 1e-6 " +
		"--ledger l --out OUT --force",
}

// TestOutputsAreNoInputs: for every command and every file that it reads, an output that is this
// file, by the same or another spelling, through a link, or as the name of a file that the command
// writes beside its output, is refused, and no file changes.
func TestOutputsAreNoInputs(t *testing.T) {
	folder := paid(t)
	t.Chdir(folder(""))
	contents := func() map[string]string {
		out := map[string]string{}
		for _, name := range names(t, ".") {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				out[name] = must(os.ReadFile(name))
			}
		}
		return out
	}
	file := regexp.MustCompile(`--(schema|data|ledger|model|compare|score|public|private|partial) (\S+)`)
	tried := 0
	for name, line := range writers {
		for _, m := range file.FindAllStringSubmatch(line, -1) {
			input := m[2]
			require.NoError(t, os.Symlink(input, "symbolic"))
			require.NoError(t, os.Link(input, "hard"))
			spellings := []string{input, "./" + input, "../" + filepath.Base(folder("")) + "/" + input, folder(input),
				"symbolic", "hard"}
			if name == "pack" {
				require.NoError(t, os.Symlink(input, "o.npy.json"))
				spellings = []string{"o.npy"} // the description beside it
			}
			before := contents()
			for _, out := range spellings {
				args := strings.Fields(strings.Replace(line, "OUT", out, 1))
				code, text, errs := call(t, "", args...)
				require.Equal(t, exitUsage, code, "%v: %s", args, errs)
				require.Contains(t, errs, "is the file of --"+m[1], args)
				require.Empty(t, text)
				require.Equal(t, before, contents(), args)
				tried++
			}
			for _, link := range []string{"symbolic", "hard", "o.npy.json"} {
				os.Remove(link)
			}
			// The lock of the output is a file that is removed in the end.
			require.NoError(t, os.Link(input, "o.npy.lock"))
			code, _, errs := call(t, "", strings.Fields(strings.Replace(line, "OUT", "o.npy", 1))...)
			require.Equal(t, exitUsage, code, errs)
			require.NoError(t, os.Remove("o.npy.lock"))
			require.Equal(t, before[input], must(os.ReadFile(input)))
		}
	}
	require.Greater(t, tried, 150)

	code, _, refused := call(t, "", "summary", "m.json", "--plot", "./m.json")
	require.Equal(t, exitUsage, code)
	require.Contains(t, refused, "is the file of argument (m.json)")

	// Standard input and output lead to files, too.
	in, err := os.Open("people.csv")
	require.NoError(t, err)
	defer in.Close()
	var errs bytes.Buffer
	code = Run(t.Context(), []string{"predict", "--model", "m.json", "--data", "-", "--out", "people.csv", "--force"}, in,
		&errs, &errs)
	require.Equal(t, exitUsage, code, errs.String())
	more, err := os.OpenFile("l", os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	defer more.Close()
	require.Equal(t, exitUsage, Run(t.Context(), []string{"ledger", "show", "l"}, nil, more, &errs))
	require.Equal(t, exitUsage, Run(t.Context(), []string{"ledger", "show", "l"}, nil, &errs, more))
	_, err = ledger.Open("l")
	require.NoError(t, err)
	code, _, text := call(t, "", "score", "--model", "m.json", "--data", "people.csv", "--epsilon", "2", "--plot", "x",
		"--out", "./X")
	require.Equal(t, exitUsage, code, text)
}

// TestForce: --force replaces files of the same kind only, keeps what may have cost budget, and
// never replaces a ledger.
func TestForce(t *testing.T) {
	folder := paid(t)
	t.Chdir(folder(""))
	code, page, errs := call(t, "", "report", "--model", "m.json", "--out", "-")
	require.Equal(t, 0, code, errs)
	_, predicted, _ := call(t, "", "predict", "--model", "m.json", "--data", "new.csv")
	old := map[string]string{kindModel: must(os.ReadFile("other.json")), kindScore: must(os.ReadFile("s.json")),
		kindSchema: people, kindPacked: must(os.ReadFile("p.npy")), kindReport: page, kindPredictions: predicted,
		"ledger": must(os.ReadFile("l")), "table": must(os.ReadFile("people.csv")),
		"table of errors": "id,prediction_error\n1,0.5\n", "table of lines": "{\"row\": {\"prediction\": 1}}\n"}
	writes := map[string]string{"fit": kindModel, "predict": kindPredictions, "pack": kindPacked, "report": kindReport,
		"schema": kindSchema}
	for command, writes := range writes {
		for kind, text := range old {
			os.Remove("o.npy.json")
			require.NoError(t, os.WriteFile("o.npy", []byte(text), 0o600))
			line := strings.Replace(writers[command], "OUT", "o.npy", 1)
			code, _, errs := call(t, "", strings.Fields(line)...)
			if kind != writes {
				require.Equal(t, exitUsage, code, "%s over a %s: %s", command, kind, errs)
				require.Contains(t, errs, "--force replaces files of the same kind only")
				require.Equal(t, text, must(os.ReadFile("o.npy")))
				continue
			}
			require.Equal(t, 0, code, errs)
			if kind != kindPacked && kind != kindPredictions { // which have no noise
				require.NotEqual(t, text, must(os.ReadFile("o.npy")))
			}
			if slices.Contains(paidFor, kind) {
				require.Contains(t, strings.Join(strings.Fields(errs), " "), "the earlier "+kind+" is kept as o.npy.old")
				require.Equal(t, text, must(os.ReadFile("o.npy.old")))
				require.NoError(t, os.Remove("o.npy.old"))
			}
		}
	}
	// The demonstration replaces its own files, and nobody else's.
	require.NoError(t, os.Mkdir("d", 0o700))
	require.NoError(t, os.WriteFile("d/patients.ledger", []byte("mine"), 0o600))
	code, _, errs = call(t, "", "demo", "--out", "d", "--force")
	require.Equal(t, exitUsage, code, errs)
	require.Equal(t, []string{"patients.ledger"}, names(t, "d"))
}

// TestFilesAreKnown: every flag of every command that names a FILE is in writers, so that the
// tests above try it.
func TestFilesAreKnown(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			kind, _ := pflag.UnquoteUsage(f)
			if kind != "FILE" || !slices.Contains([]string{"fit", "predict", "pack", "score", "report", "schema",
				"summary"}, c.Name()) {
				require.NotContains(t, outputFlags, f.Name, c.Name()+" writes: add it to writers")
				return
			}
			known := slices.ContainsFunc(slices.Collect(maps.Values(writers)), func(line string) bool {
				return strings.HasPrefix(line, c.Name()+" ") && strings.Contains(line, "--"+f.Name+" ")
			})
			require.True(t, known, "%s --%s", c.Name(), f.Name)
		})
		for _, s := range c.Commands() {
			if s.Name() != "demo" { // a folder
				visit(s)
			}
		}
	}
	visit((&app{}).root())
}

// after returns a context in which a step of every release, after the charge, calls f.
func after(t *testing.T, f func()) context.Context {
	ctx := fault.With(t.Context(), release.Drawn, func(q erm.Perturbation) erm.Perturbation { f(); return q })
	search := fault.NewStep[*table.Undeclared](fault.SearchTable)
	ctx = fault.With(ctx, search, func(u *table.Undeclared) *table.Undeclared { f(); return u })
	return fault.With(ctx, fault.ScoreSigmas, func(s []float64) []float64 { f(); return s })
}

// TestNothingPaidIsLost: for every charge and every refusal behind it, the ledger is not charged,
// or what was paid for is in a file that the message names.
func TestNothingPaidIsLost(t *testing.T) {
	charges := map[string]string{
		"fit":    "fit --schema people.json --data people.csv --epsilon 1 --ledger l --out OUT",
		"search": "fit --data people.csv --label pays --task two-classes --epsilon 3 --delta 1e-6 --ledger l --out OUT",
		"no fit": "fit --data none.csv --label pays --task two-classes --epsilon 3 --delta 1e-6 --ledger l --out OUT",
		"schema": "schema --private people.csv --label pays --epsilon 3 --delta 1e-6 --ledger l --out OUT",
		"score":  "score --model m.json --data people.csv --epsilon 2 --ledger l --out OUT",
		"plot":   "score --model m.json --data people.csv --epsilon 2 --ledger l --plot OUT",
	}
	refusals := map[string]struct {
		out     string
		before  func()
		after   func()
		charged bool
	}{
		"it works":  {out: "o.json", charged: true},
		"no folder": {out: "no/o.json"},
		"a folder":  {out: "dir"},
		"it exists": {out: "o.json", before: func() { os.WriteFile("o.json", []byte("mine"), 0o600) }},
		"a second name exists": {out: "o.json",
			before: func() { os.WriteFile("o.json.schema.json", []byte("mine"), 0o600) }},
		"the folder goes":         {out: "dir/o.json", after: func() { os.RemoveAll("dir") }, charged: true},
		"the disk is full":        {out: "/dev/full", charged: true},
		"the ledger breaks":       {out: "o.json", after: func() { os.WriteFile("l", []byte("x"), 0o600) }, charged: true},
		"the ledger is a folder":  {out: "o.json", after: func() { os.Remove("l"); os.Mkdir("l", 0o700) }, charged: true},
		"the reader of - is gone": {out: "-", charged: true},
	}
	named := regexp.MustCompile(`(?:paid for|that was found|score itself) is in (\S+?)[:,.]?(?:\s|$)`)
	ready := paid(t)
	for what, line := range charges {
		for why, r := range refusals {
			t.Run(what+", "+why, func(t *testing.T) {
				t.Chdir(t.TempDir())
				require.NoError(t, os.CopyFS(".", os.DirFS(ready(""))))
				none := strings.ReplaceAll(strings.ReplaceAll(rows(400, true), ",yes", ",no"), "nurse", "pilot")
				require.NoError(t, os.WriteFile("none.csv", []byte(none), 0o600))
				require.NoError(t, os.Mkdir("dir", 0o700))
				spent := must(os.ReadFile("l"))
				if r.before != nil {
					r.before()
				}
				ctx := t.Context()
				if r.after != nil {
					ctx = after(t, r.after)
				}
				var errs bytes.Buffer
				var out failing
				command := line
				if r.out != "-" {
					out.to = &bytes.Buffer{}
				}
				if r.out == "-" && (what == "score" || what == "plot") {
					command = strings.NewReplacer(" --out OUT", "", " --plot OUT", "").Replace(line)
				}
				code := Run(ctx, strings.Fields(strings.Replace(command, "OUT", r.out, 1)), nil, out, &errs)
				text := strings.Join(strings.Fields(errs.String()), " ")
				now, _ := os.ReadFile("l")
				if !r.charged && string(now) == spent {
					require.Equal(t, exitUsage, code, text)
					return
				}
				require.NotEqual(t, spent, string(now), text)
				where := r.out
				if code != exitOK {
					m := named.FindStringSubmatch(text)
					require.NotNil(t, m, text)
					where = m[1]
				}
				if what == "plot" && (code == exitOK || where == "the") { // the score is on standard output
					require.Contains(t, out.to.String(), "accuracy")
					return
				}
				found, err := os.ReadFile(where)
				require.NoError(t, err, text)
				kind, err := contentsOf(where)
				require.NoError(t, err)
				require.Contains(t, paidFor, kind, text)
				if kind == kindModel {
					_, err = model.Load(bytes.NewReader(found))
					require.NoError(t, err)
				}
				if what == "no fit" {
					require.Equal(t, kindSchema, kind)
				}
			})
		}
	}
}

// failing is a standard output, without a buffer one whose reader has left.
type failing struct{ to *bytes.Buffer }

func (f failing) Write(p []byte) (int, error) {
	if f.to == nil {
		return 0, syscall.EPIPE
	}
	return f.to.Write(p)
}

// TestLedgerIsAFile: a pipe, a device or a folder is refused as a ledger at once.
func TestLedgerIsAFile(t *testing.T) {
	at := paid(t)
	require.NoError(t, syscall.Mkfifo(at("fifo"), 0o600))
	for _, path := range []string{at("fifo"), "/dev/zero", at("")} {
		for _, args := range [][]string{
			{"ledger", "show", path}, {"ledger", "verify", path, at("m.json")},
			{"fit", "--schema", at("people.json"), "--data", at("people.csv"), "--epsilon", "1", "--out", at("x"), "--ledger",
				path},
			{"score", "--model", at("m.json"), "--data", at("people.csv"), "--epsilon", "1", "--ledger", path},
			{"report", "--model", at("m.json"), "--out", at("x"), "--ledger", path},
		} {
			code, _, errs := call(t, "", args...)
			require.Equal(t, exitRefused, code, errs)
			require.Contains(t, errs, "is a folder, a pipe or a device")
		}
	}
	code, _, errs := call(t, "", "ledger", "show", at("people.csv"))
	require.Equal(t, exitRefused, code)
	require.Contains(t, errs, "is it the right file?")
}

// TestNumbersOfFlags: every flag of a number reads decimal numbers only.
func TestNumbersOfFlags(t *testing.T) {
	tried := 0
	root := (&app{}).root()
	strictly(root)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if !strings.HasPrefix(kind, "float") && !strings.HasPrefix(kind, "int") {
				return
			}
			tried++
			for _, bad := range []string{"1_0", "0x10", "0x1p3", "inf", "Infinity", "nan", "", "1,5_0", "1e", "١"} {
				require.Error(t, f.Value.Set(bad), "%s --%s %s", c.Name(), f.Name, bad)
			}
			if strings.HasPrefix(kind, "int") {
				require.Error(t, f.Value.Set("010"))
			}
			require.NoError(t, f.Value.Set("10"))
			require.Contains(t, []string{"10", "[10.000000]"}, f.Value.String())
		})
		for _, s := range c.Commands() {
			visit(s)
		}
	}
	visit(root)
	require.Greater(t, tried, 20)
	for _, bad := range [][]string{
		{"--epsilon", "1_0"}, {"--epsilon", "1", "--set", "ball:1_0"}, {"--epsilon", "1", "--seed", "1_0"},
	} {
		at := folder(t)
		code, _, errs := call(t, "", append([]string{"fit", "--schema", at("people.json"), "--data", at("people.csv"),
			"--out", at("z")}, bad...)...)
		require.Equal(t, exitUsage, code, errs)
	}
	_, err := decimal("0.5_0")
	require.Error(t, err)
}

// TestClaims: a number of a guarantee is never shown smaller than it is, nor a δ below 1 as 1.
func TestClaims(t *testing.T) {
	for v, want := range map[float64]string{.999999999999: "0.999999999999", 1.00001: "1.01", 1: "1", 0: "0", 2.5: "2.5",
		9.4321e-10: "9.44e-10", 6.25e-6: "6.25e-06", 123456: "124000", 0.1: "0.1", math.Inf(1): "∞", 0.9999: "0.9999"} {
		require.Equal(t, want, claim(v, 3), v)
	}
	for k := range 20000 {
		v := math.Exp(float64(k)/500 - 20)
		up, err := strconv.ParseFloat(claim(v), 64)
		require.NoError(t, err)
		down, err := strconv.ParseFloat(room(v), 64)
		require.NoError(t, err)
		require.True(t, down <= v && v <= up && up <= 1.011*v && down >= 0.989*v, "%v %v %v", down, v, up)
	}
	require.Equal(t, "5.1 %", atMost(0.0501))
	require.Equal(t, "100.0 %", atMost(1))
	require.Equal(t, "99.9 %", levelText(0.999))
	require.Equal(t, ">99 %", percent0(0.9999))
	at := folder(t)
	code, out, errs := call(t, "", "ledger", "create", at("l"), "--epsilon", "1.00001", "--delta", ".999999999999")
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, "ε = 1.001, δ = 0.999999999999\n")
}

// TestRescue: what was paid for goes to the next folder, and in the end to standard error.
func TestRescue(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", "/nonexistent")
	t.Setenv("TMPDIR", "/nonexistent")
	var errs bytes.Buffer
	a := &app{stderr: &errs}
	rescued := a.rescue(errors.New("broken"), []byte("{}"))
	found := names(t, ".")
	require.Len(t, found, 1)
	require.ErrorContains(t, rescued, found[0])
	dir, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	require.ErrorContains(t, a.rescue(errors.New("broken"), []byte("{2}")), "standard error")
	require.Equal(t, "{2}", errs.String())
}
