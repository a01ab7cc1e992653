package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/table"
)

// build says which program made a model.
type build struct {
	Module   string `json:"module,omitzero"`   // path and version of the main module
	Revision string `json:"revision,omitzero"` // of the version control system
	Go       string `json:"go,omitzero"`
}

func readBuild() build {
	b := build{Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Module = info.Main.Path + "@" + info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}

const formatVersion = 1

type file struct {
	Version      int                 `json:"model"`
	Description  string              `json:"description"`
	Certificate  dp.Certificate      `json:"certificate"`
	Coefficients []table.Coefficient `json:"coefficients,omitempty"` // in the units of the file
	Theta        []float64           `json:"theta"`                  // in the units of encoded rows
	Plan         Params              `json:"plan"`
	Choice       *Choice             `json:"choice,omitempty"`
	Moments      *fileMoments        `json:"moments,omitempty"`
	Schema       *table.Schema       `json:"schema,omitempty"`
	Ledger       string              `json:"ledger,omitempty"` // hash of the entry that paid
	Build        build               `json:"build"`
}

// fileMoments are the sums for standard errors: upper triangles, row by row, and the
// deviation of the noise on their diagonals.
type fileMoments struct {
	Hessian    []float64 `json:"hessian"`
	HessianTau float64   `json:"hessianTau"`
	Scores     []float64 `json:"scores"`
	ScoresTau  float64   `json:"scoresTau"`
}

// Save writes the model as JSON. Equal models give equal bytes.
func (m *Model) Save(w io.Writer) error {
	if m == nil || w == nil {
		return fmt.Errorf("%w: the model or the writer is nil, want both", ErrFile)
	}
	f := file{
		Version: formatVersion, Description: m.prose, Certificate: m.cert, Coefficients: m.Coefficients(), Theta: m.theta,
		Plan: m.params, Choice: m.choice, Ledger: m.head, Build: m.build,
	}
	if m.encoder != nil {
		f.Schema = m.encoder.Schema()
	}
	if m.moments != nil {
		f.Moments = &fileMoments{upper(m.moments.hessian), m.moments.hessianTau, upper(m.moments.scores), m.moments.scoresTau}
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

const maxFile = 1 << 30

// Load reads a model that Save wrote. It refuses, wrapping ErrFile, what it does not
// understand: another version, unknown keys, and numbers that do not fit together.
func Load(r io.Reader) (*Model, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: the reader is nil, want one of a model that Save wrote", ErrFile)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrFile, maxFile)
	}
	var version struct {
		Version int `json:"model"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("%w: no JSON of a model: %w", ErrFile, err)
	}
	if version.Version != formatVersion {
		return nil, fmt.Errorf("%w: version %d of the form, this program reads version %d: use the program that wrote it, or fit again", ErrFile,
			version.Version, formatVersion)
	}
	var f file
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	m := &Model{theta: f.Theta, cert: f.Certificate, params: f.Plan, choice: f.Choice, prose: f.Description, head: f.Ledger, build: f.Build}
	if err := m.restore(f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return m, nil
}

// restore fills in the rest of m and checks that all fits together.
func (m *Model) restore(f file) error {
	if err := m.cert.Check(); err != nil {
		return err
	}
	d := len(m.theta)
	if d == 0 || d != m.params.Dim {
		return fmt.Errorf("theta has %d numbers, the plan %d parameters", d, m.params.Dim)
	}
	if err := m.params.Bounds.Check(); err != nil {
		return err
	}
	kind := table.Kind(0)
	if f.Schema != nil {
		e, err := f.Schema.Encoder()
		if err != nil {
			return err
		}
		m.encoder, kind = e, e.Kind()
		if e.Dim() != d {
			return fmt.Errorf("the schema has %d parameters, the model %d", e.Dim(), d)
		}
	}
	if l, err := m.params.Loss.complete(kind); err != nil || l != m.params.Loss {
		return fmt.Errorf("the loss %+v is not one of this version: %w", m.params.Loss, err)
	}
	if d%m.classes() != 0 {
		return fmt.Errorf("%d parameters for %d classes", d, m.classes())
	}
	if (m.params.Release == nil) == (m.params.Sequence == nil) || (m.params.Sequence == nil) != (m.choice == nil) {
		return fmt.Errorf("the plan is neither one release nor a sequence with its choices")
	}
	if (f.Moments == nil) != (m.params.Intervals == nil) {
		return fmt.Errorf("intervals and their sums do not fit together")
	}
	if s := f.Moments; s != nil {
		h, bad := symmetric(s.Hessian, d)
		j, worse := symmetric(s.Scores, d)
		m.moments = &moments{hessian: h, scores: j, hessianTau: s.HessianTau, scoresTau: s.ScoresTau}
		return cmp.Or(bad, worse)
	}
	return nil
}

// upper returns the upper triangle, row by row.
func upper(m *mat.SymDense) []float64 {
	var out []float64
	for j := range m.SymmetricDim() {
		for k := j; k < m.SymmetricDim(); k++ {
			out = append(out, m.At(j, k))
		}
	}
	return out
}

func symmetric(v []float64, d int) (*mat.SymDense, error) {
	if len(v) != d*(d+1)/2 {
		return nil, fmt.Errorf("a sum has %d numbers, want %d", len(v), d*(d+1)/2)
	}
	m, at := mat.NewSymDense(d, nil), 0
	for j := range d {
		for k := j; k < d; k++ {
			if math.IsNaN(v[at]) || math.IsInf(v[at], 0) {
				return nil, fmt.Errorf("a sum has an entry that is not finite")
			}
			m.SetSym(j, k, v[at])
			at++
		}
	}
	return m, nil
}
