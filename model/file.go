// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/release"
	"github.com/privopt/privopt/table"
)

// build identifies the program that made a model.
type build struct {
	Module   string `json:"module,omitzero"`   // path and version of this module
	Revision string `json:"revision,omitzero"` // of the main module
	Go       string `json:"go,omitzero"`
}

func readBuild() build {
	b := build{Module: "github.com/privopt/privopt@v" + privopt.Version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
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

// Load reads a model that [Model.Save] wrote. The error wraps [ErrFile] for another version,
// unknown keys and numbers that contradict each other.
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
		return nil, fmt.Errorf("%w: version %d of the form, this program reads version %d: use the program that wrote "+
			"it, or fit again", ErrFile, version.Version, formatVersion)
	}
	var f file
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("%w: %w; where its theorem, %q, is withdrawn, only the version that wrote the model reads it",
			ErrFile, err, shortened(f.Certificate.Theorem))
	}
	m := &Model{theta: f.Theta, cert: f.Certificate, params: f.Plan, choice: f.Choice, prose: f.Description,
		head: f.Ledger, build: f.Build}
	if err := m.restore(f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	sum := sha256.Sum256(text)
	m.digest = hex.EncodeToString(sum[:])
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
	if err := m.checkNumbers(); err != nil {
		return err
	}
	if m.head != "" && !release.IsDigest(m.head) {
		return fmt.Errorf("ledger: %.20q, want 64 hexadecimal digits, the hash of a ledger's entry, or nothing", m.head)
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
		if e.Bounds() != m.params.Bounds {
			return fmt.Errorf("plan.bounds: %+v, the schema has %+v", m.params.Bounds, e.Bounds())
		}
		if p, _ := e.Persons(); p.Rows != m.params.Rows {
			return fmt.Errorf("plan.rows: %d, the schema has %d: want one number of lines of a person, 0 for none",
				m.params.Rows, p.Rows)
		}
	}
	if l, err := m.params.Loss.complete(kind); err != nil {
		return fmt.Errorf("the loss is not one of this version: %w", err)
	} else if l != m.params.Loss {
		return fmt.Errorf("the loss %+v is not complete, want %+v", m.params.Loss, l)
	}
	if k := m.classes(); k < 1 || k > d || d%k != 0 {
		return fmt.Errorf("%d parameters for labels up to %v of the loss %q", d, m.params.Bounds.Label, m.params.Loss.Name)
	}
	if (m.params.Release == nil) == (m.params.Sequence == nil) || (m.params.Sequence == nil) != (m.choice == nil) {
		return fmt.Errorf("the plan is neither one release nor a sequence with its choices")
	}
	if c := m.choice; c != nil {
		for _, name := range c.Average {
			if m.encoder == nil || !slices.ContainsFunc(m.encoder.Features(), func(f table.Feature) bool {
				return indicator(f) && f.Name == name
			}) {
				return fmt.Errorf("choice.average: %.40q is no level of the schema", name)
			}
		}
	}
	if err := m.checkClaim(); err != nil {
		return err
	}
	if err := sameCoefficients(f.Coefficients, m.Coefficients()); err != nil {
		return err
	}
	if (f.Moments == nil) != (m.params.Intervals == nil) {
		return fmt.Errorf("intervals and their sums do not fit together")
	}
	if s := f.Moments; s != nil {
		h, err := symmetric(s.Hessian, d)
		if err != nil {
			return err
		}
		j, err := symmetric(s.Scores, d)
		if err != nil {
			return err
		}
		if !within(leastNoise, s.HessianTau) || !within(leastNoise, s.ScoresTau) {
			return fmt.Errorf("moments: noise of deviation %v and %v, want numbers from %g to %g", s.HessianTau, s.ScoresTau,
				leastNoise, mostNumber)
		}
		m.moments = &moments{hessian: h, scores: j, hessianTau: s.HessianTau, scoresTau: s.ScoresTau}
	}
	return nil
}

// mostNumber is the largest number of a model, except in its schema. Products of two such numbers
// and sums of many are finite.
const mostNumber = 1e100

// leastNoise is the least standard deviation of noise; its square is not 0.
const leastNoise = 1e-100

func within(lo, v float64) bool { return v >= lo && v <= mostNumber }

// checkNumbers reports numbers that no fit writes.
func (m *Model) checkNumbers() error {
	p := m.params
	if err := p.Bounds.Check(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if err := p.Budget.Check(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if err := p.Relation.Check(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if p.Bounds.Row > mostNumber || p.Bounds.Label > mostNumber || p.Records < 0 || p.MaxRecords < int64(p.Records) {
		return fmt.Errorf("plan: bounds %+v, records %d, maxRecords %d, want bounds up to %g and no more records than "+
			"maxRecords", p.Bounds, p.Records, p.MaxRecords, mostNumber)
	}
	for j, v := range m.theta {
		if !within(-mostNumber, v) {
			return fmt.Errorf("theta[%d]: %v, want a number up to %g", j, v, mostNumber)
		}
	}
	if _, err := p.Penalty.operator(1, [][]int{}); err != nil {
		return err
	}
	if _, err := p.Set.set(); err != nil {
		return err
	}
	if i := copied(p.Intervals); i != nil {
		if err := i.complete(); err != nil {
			return err
		}
		if i.Radius > mostNumber {
			return fmt.Errorf("plan.intervals.radius: %v, want a number up to %g", i.Radius, mostNumber)
		}
	}
	if c := m.choice; c != nil {
		for _, v := range []float64{c.FirstClip, c.Clip, c.Clipped, c.Signal, c.Ridge} {
			if !within(0, v) {
				return fmt.Errorf("choice: %v, want numbers from 0 to %g", v, mostNumber)
			}
		}
		if p.Intervals != nil && !within(leastNoise, c.Ridge+p.Penalty.Ridge*float64(p.Records)) {
			return fmt.Errorf("choice.ridge: %v beside a penalty without a ridge, want a number from %g to %g: intervals "+
				"divide by it", c.Ridge, leastNoise, mostNumber)
		}
		least := leastNoise
		if p.Sequence != nil && p.Sequence.Shares.Gradients > 0 { // no minimizer, no output noise
			least = 0
		}
		if !within(leastNoise, c.Sigma) || !within(least, c.OutputSigma) {
			return fmt.Errorf("choice: sigma %v and outputSigma %v, want numbers from %g to %g", c.Sigma, c.OutputSigma,
				leastNoise, mostNumber)
		}
	}
	return nil
}

// checkClaim compares the certificate with the plan. It cannot detect an edit of both; a ledger
// can.
func (m *Model) checkClaim() error {
	p, theorem := m.params, m.params.theorem()
	b := m.params.Budget
	dim, relation := p.Dim, p.Relation
	rows := p.Rows
	if r := p.Release; r != nil {
		b, dim = r.Budget, r.Dim
		relation, rows = r.Relation, r.Rows
	}
	if e := m.encoder; e != nil && m.cert.Person != "" { // version 0.2.0 names none
		if column := e.Schema().Person; m.cert.Person != column {
			return fmt.Errorf("certificate: person %.40q, the schema has %.40q: want one column", m.cert.Person, column)
		}
	}
	if c := m.cert; c.Rows != rows || rows != p.Rows {
		return fmt.Errorf("certificate: rows %d, the plan has rows %d and %d: want one number of lines of a person", c.Rows,
			p.Rows, rows)
	}
	if c := m.cert; c.Theorem != theorem || c.Budget != b || c.Relation != relation || c.Relation != p.Relation ||
		dim != p.Dim {
		return fmt.Errorf("certificate: %v by %q for %v neighbors, the plan has %v by %q for %v neighbors and %d parameters",
			c.Budget, shortened(c.Theorem), c.Relation, b, shortened(theorem), relation, dim)
	}
	return nil
}

func shortened(s string) string { return s[:min(len(s), 40)] }

// sameCoefficients compares coefficients in the units of the file with those that follow from θ.
func sameCoefficients(got, want []table.Coefficient) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d coefficients, the schema and theta give %d", len(got), len(want))
	}
	largest := 0.0
	for _, w := range want {
		largest = max(largest, math.Abs(w.Value))
	}
	for i, w := range want {
		g := got[i]
		// Processors fuse products in their own ways, and the terms of an intercept may cancel.
		near := math.Abs(g.Value-w.Value) <= 1e-6*math.Abs(w.Value)+1e-9*largest
		if g.Value, w.Value = 0, 0; g != w || !near {
			return fmt.Errorf("coefficients[%d]: %v, theta gives %v", i, got[i].Value, want[i].Value)
		}
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
			if !within(-mostNumber, v[at]) {
				return nil, fmt.Errorf("a sum has the entry %v, want numbers up to %g", v[at], mostNumber)
			}
			m.SetSym(j, k, v[at])
			at++
		}
	}
	return m, nil
}
