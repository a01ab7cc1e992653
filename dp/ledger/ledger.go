// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package ledger keeps a file of the budgets spent on a data set, and refuses a release that would
// exceed a declared total:
//
//	terms, err := ledger.NewTerms(dp.Budget{Epsilon: 2, Delta: 1e-5}, dp.Replace)
//	l, err := ledger.Create("adult.ledger", terms) // once; later ledger.Open("adult.ledger")
//	entry, err := l.Spend(ctx, plan, nil)          // after an error nothing may be drawn or released
//	release, err := plan.Fit(ctx, p, nil)
//	file, err := json.Marshal(release)             // the text that will be published
//	err = l.Commit(ctx, entry.Hash, file)
//
// Spend writes the entry and syncs it to the disk before noise is drawn, so that a crash after that
// has spent its entry. Commit adds the SHA-256 of the file that publishes the release.
//
// # Composition
//
// Plans are chosen with knowledge of earlier releases, so that [dp.Compose] does not apply. A plan
// is admitted if one of these filters with the total (ε, δ) admits it, of m that the Terms declare:
//
//	basic     Σ εᵢ ≤ ε and Σ δᵢ ≤ δ/m
//	order α   Σ RDPᵢ(α) ≤ B(α), which implies (ε, (1−2⁻¹⁰)δ/m), and (1+e^ε) Σ Failureᵢ ≤ 2⁻¹⁰δ/m
//
// The proofs are in docs/theory/composition.md#ledger.basic and #ledger.order. The filters of
// [NewTerms] serve several releases better than sums, and a single one as well: if none of them
// admits the first plan, all of δ is for sums. Sums of ε and δ are exact sums of the decimal
// numbers that the file shows.
//
// # Locking
//
// Processes that use one ledger wait for each other. The lock is one of the file, whatever the name
// or link that leads to it. A program that saves by renaming, as editors do, puts another ledger in
// its place. A lock on a network file system may not reach other machines, which may then spend the
// same budget: Spend reads the file again behind its entry and finds some such cases, not all. Keep
// a ledger on a local disk of the one machine that fits.
//
// # What the file proves
//
// Every line carries the SHA-256 of itself and of the line before, and every entry 128 random bits.
// An edit that does not compute all later hashes anew is refused. Nothing is signed: whoever may
// write the ledger can cut it off, restore an older copy or write all hashes anew. Only a hash that
// is recorded elsewhere shows that, such as the one that every model keeps, see [Ledger.Verify].
//
// New ledgers have version 4 of the format, and those of version 2 are continued. Version 3, which
// privopt 0.2.0 made by default, is refused: it has a filter that no longer exists. A ledger of
// version 0.1.0, whose entries have neither random bits nor files, is continued; models of its old
// entries cannot be verified. Version 0.1.0 refuses a ledger with a new entry, and its
// locks differ: do not run both on one ledger at once. Entries of version 0.2.0 do not name the
// column of persons: a ledger of persons with such entries refuses plans that name one.
package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/prefix"
)

// Errors of this package. Test with errors.Is.
var (
	// ErrTerms reports terms that make no ledger.
	ErrTerms = prefix.New("ledger: invalid terms")
	// ErrOverspent reports a plan that the total does not admit.
	ErrOverspent = prefix.New("ledger: the total would be exceeded")
	// ErrSeeded reports noise that somebody could draw again.
	ErrSeeded = prefix.New("ledger: reproducible noise is not private")
	// ErrBroken reports a file that is not a ledger or was edited.
	ErrBroken = prefix.New("ledger: the file is broken")
	// ErrBehind reports a ledger that lacks an entry whose hash is known.
	ErrBehind = prefix.New("ledger: the file is behind")
	// ErrMismatch reports a file that is not the one that the ledger committed to.
	ErrMismatch = prefix.New("ledger: the file is not the release that was paid for")
	// ErrBusy reports that other processes kept the lock.
	ErrBusy = prefix.New("ledger: locked by another process")
)

// Terms are fixed when a ledger is made.
type Terms struct {
	Total    dp.Budget   `json:"total"`    // of all releases together
	Relation dp.Relation `json:"relation"` // of every plan; unset means dp.Replace
	// Persons says that neighbors of every plan differ in one person: Rows of its certificate is
	// positive. The first entry fixes whose ids they are, Person of the certificate.
	Persons bool `json:"persons,omitempty"`
	// Orders are the increasing orders α > 1 of Rényi filters; none means basic composition alone.
	Orders []float64 `json:"orders,omitempty"`
}

// NewTerms returns the terms of a ledger that many releases cost least with: two Rényi filters
// beside that of sums. Without δ that of sums is the only one. The error wraps ErrTerms.
func NewTerms(total dp.Budget, relation dp.Relation) (Terms, error) {
	if relation == 0 {
		relation = dp.Replace
	}
	t := Terms{Total: total, Relation: relation}
	if err := t.Check(); err != nil || total.Delta == 0 {
		return t, err
	}
	b := dp.Budget{Epsilon: total.Epsilon, Delta: total.Delta / 3 * (1 - 1e-12)} // of each filter
	t.Orders = []float64{bestOrder(b)}
	if half := bestOrder(dp.Budget{Epsilon: b.Epsilon / 2, Delta: b.Delta}); half > t.Orders[0] {
		t.Orders = append(t.Orders, half)
	}
	return t, t.Check()
}

// Check returns an error that wraps ErrTerms unless the total and the relation are valid and the
// orders are at most 64 increasing numbers in (1, 1e6], with a positive δ.
func (t Terms) Check() error {
	total, relation := t.Total.Check(), t.Relation.Check()
	switch {
	case total != nil:
		return fmt.Errorf("%w: Total: %w", ErrTerms, total)
	case relation != nil:
		return fmt.Errorf("%w: Relation: %w", ErrTerms, relation)
	case len(t.Orders) > 64:
		return fmt.Errorf("%w: %d Orders, want at most 64", ErrTerms, len(t.Orders))
	case t.filters() > 1 && t.Total.Delta/float64(t.filters()) < dp.MinDelta:
		return fmt.Errorf("%w: Total.Delta = %g, want at least %g for each of %d filters, or no Orders, which leaves "+
			"sums alone", ErrTerms, t.Total.Delta, dp.MinDelta, t.filters())
	}
	last := 1.0
	for i, a := range t.Orders {
		if !(a > last && a <= 1e6) {
			return fmt.Errorf("%w: Orders[%d] = %v, want increasing numbers greater than 1 and at most 1e6", ErrTerms, i, a)
		}
		last = a
	}
	return nil
}

// Entry is a release that was paid for.
type Entry struct {
	Number      int             `json:"entry"` // 1, 2, …
	Time        time.Time       `json:"time"`
	Theorem     string          `json:"theorem"`
	Epsilon     float64         `json:"epsilon"`
	Delta       float64         `json:"delta"`
	Relation    dp.Relation     `json:"relation"`
	Rows        int             `json:"rows,omitempty"`   // of the certificate
	Person      string          `json:"person,omitempty"` // of the certificate
	Assumptions []dp.Assumption `json:"assumptions"`
	// RDP bounds the Rényi divergences at the orders of the terms, nil where no bound is known.
	RDP []float64 `json:"rdp,omitempty"`
	// Failure is the probability of the event in which RDP does not hold. It is not in version 0.1.0,
	// whose entries count with 2⁻⁵⁷δ.
	Failure float64 `json:"failure,omitempty"`
	// Alone says that no filter admitted this first entry with its share of δ: the filter of sums has
	// all of δ from here on, and there is no other.
	Alone bool   `json:"alone,omitempty"`
	Plan  string `json:"plan"` // prose
	// Nonce holds 128 random bits as hexadecimal digits, so that no two entries are equal; "" in
	// entries of version 0.1.0.
	Nonce string `json:"nonce,omitempty"`
	Hash  string `json:"-"` // of the entry and all before it, as 64 hexadecimal digits
	File  string `json:"-"` // SHA-256 of the file that was committed, "" before Commit
}

// Ledger is an open ledger file. It is safe for concurrent use, also by other processes.
type Ledger struct {
	path string
	mu   sync.Mutex
	s    *state
}

// Create makes a ledger file, which must not exist. The error wraps ErrTerms or fs.ErrExist.
func Create(path string, t Terms) (*Ledger, error) {
	if t.Relation == 0 {
		t.Relation = dp.Replace
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	line, _, err := seal(opening{formatVersion, bits(), now(), t}, "")
	if err != nil {
		return nil, err
	}
	switch err := writeNew(path, line); {
	case errors.Is(err, os.ErrExist):
		return nil, prefix.Errorf("ledger: %s: %w: open it, or choose another name", path, os.ErrExist)
	case err != nil:
		return nil, prefix.Errorf("ledger: %w", err)
	}
	return Open(path)
}

// Open reads a ledger file and checks its chain of hashes. The error wraps ErrBroken, ErrTerms for
// a ledger of version 3 of the format, or that of reading the file.
func Open(path string) (*Ledger, error) {
	l := &Ledger{path: path}
	return l, l.reload()
}

// reload reads the file again.
func (l *Ledger) reload() error {
	if err := regular(l.path); err != nil {
		return err
	}
	text, err := os.ReadFile(l.path)
	if err != nil {
		return prefix.Errorf("ledger: %w", err)
	}
	return l.update(text)
}

// regular refuses a name of anything but a file: reading a pipe would wait for ever, and a device
// keeps nothing.
func regular(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return prefix.Errorf("ledger: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is a folder, a pipe or a device, want a file that Create made", ErrBroken, path)
	}
	return nil
}

// update replaces the state by that of the text, which must contain all lines read before.
func (l *Ledger) update(text []byte) error {
	s, err := parse(text)
	if err != nil {
		return fmt.Errorf("%w (%s)", err, l.path)
	}
	if l.s != nil && !slices.Contains(s.heads, l.s.head()) {
		return fmt.Errorf("%w: %s no longer holds what was read from it before: restore it from a copy", ErrBehind, l.path)
	}
	l.s = s
	return nil
}

// write appends the line that next makes of the newest state, and returns its hash. It holds the
// lock of the file.
func (l *Ledger) write(ctx context.Context, next func() (line any, err error)) (hash string, err error) {
	if err := regular(l.path); err != nil {
		return "", err
	}
	f, unlock, err := lock(ctx, l.path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	text, err := io.ReadAll(f)
	if err != nil {
		return "", prefix.Errorf("ledger: %w", err)
	}
	if err := l.update(text); err != nil {
		return "", err
	}
	v, err := next()
	if err != nil {
		return "", err
	}
	line, hash, err := seal(v, l.s.head())
	if err != nil {
		return "", err
	}
	const warning = "release nothing; the line may be in the file and count"
	if err := l.s.append(f, line); err != nil {
		return "", prefix.Errorf("ledger: %s: writing: %w: %s", l.path, err, warning)
	}
	if err := l.reload(); err != nil { // by its name, which may lead to another file by now
		return "", fmt.Errorf("%w: %s", err, warning)
	}
	if !slices.Contains(l.s.heads, hash) {
		return "", fmt.Errorf("%w: %s lacks the line that was just written, which another program replaced or another "+
			"machine overwrote: %s", ErrBehind, l.path, warning)
	}
	return hash, nil
}

// Spend enters a release of the plan and returns when the entry is on the disk. Only then may noise
// be drawn for the release, once. It waits for other processes until ctx is done.
//
// src is the source that the fit will get. It must be nil, the secure one: noise that can be drawn
// again is refused with ErrSeeded. The error wraps ErrOverspent if the total does not admit the
// plan, dp.ErrRelation if the plan is about other neighbors, dp.ErrCondition or dp.ErrBudget if it
// has no certificate, ErrBusy, ErrBroken or ErrBehind. After an error of writing the entry may be
// in the file and then counts as spent.
func (l *Ledger) Spend(ctx context.Context, plan dp.Plan, src rand.Source) (Entry, error) {
	if src != nil {
		return Entry{}, fmt.Errorf("%w: the source is not nil: leave out the seed, or fit without the ledger and release "+
			"nothing", ErrSeeded)
	}
	if err := l.usable(ctx); err != nil {
		return Entry{}, err
	}
	if plan == nil {
		return Entry{}, fmt.Errorf("%w: the plan is nil, want one that a calibration made", dp.ErrCondition)
	}
	c := plan.Certificate()
	if err := c.Check(); err != nil {
		return Entry{}, prefix.Errorf("ledger: the plan has no valid certificate: %w", err)
	}
	if slices.Contains(c.Assumptions, dp.CallerSource) {
		return Entry{}, fmt.Errorf("%w: the certificate assumes that a caller's source is secret: use the secure source",
			ErrSeeded)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var e Entry
	hash, err := l.write(ctx, func() (any, error) {
		t := l.s.terms
		if c.Relation != t.Relation {
			return nil, fmt.Errorf("%w: the plan is about %v neighbors, want %v, as the ledger declares", dp.ErrRelation,
				c.Relation, t.Relation)
		}
		if (c.Rows > 0) != t.Persons {
			return nil, fmt.Errorf("%w: the plan is about neighbors that differ in one %s, want one %s, as the ledger declares",
				dp.ErrRelation, unit(c.Rows > 0), unit(t.Persons))
		}
		if err := l.s.same(l.path, c); err != nil {
			return nil, err
		}
		p := plan.Profile()
		if !(p.Failure >= 0 && p.Failure <= 1) {
			return nil, fmt.Errorf("%w: the profile of the plan has Failure = %v, want a probability", dp.ErrCondition,
				p.Failure)
		}
		e = Entry{
			Number: len(l.s.entries) + 1, Time: now(), Theorem: c.Theorem,
			Epsilon: c.Epsilon, Delta: c.Delta, Relation: c.Relation, Rows: c.Rows, Person: c.Person,
			Assumptions: c.With(dp.Declared(plan)...).Assumptions,
			RDP:         curve(t.Orders, p.RDP, c.Budget), Failure: p.Failure, Plan: plan.String(), Nonce: bits(),
		}
		err := l.s.spent.admits(t, e)
		if err != nil && e.Number == 1 && l.s.version == formatVersion {
			e.Alone = true // the refusal is that of the filter that admits most
			err = l.s.spent.admits(t, e)
		}
		return e, err
	})
	if err != nil {
		return Entry{}, err
	}
	e.Hash = hash
	return e, nil
}

// unit names what neighbors differ in.
func unit(persons bool) string {
	if persons {
		return "person"
	}
	return "record"
}

// usable refuses a nil ledger and a nil context.
func (l *Ledger) usable(ctx context.Context) error {
	switch {
	case l == nil:
		return fmt.Errorf("%w: the ledger is nil, want one made by Create or Open", ErrTerms)
	case ctx == nil:
		return fmt.Errorf("%w: ctx is nil, want one such as context.Background()", dp.ErrCondition)
	}
	return nil
}

// Commit records that file, the whole text that publishes the release, belongs to the entry with
// this hash, and returns when that is on the disk. An entry has one file: the error wraps
// ErrMismatch if it has another one, ErrBehind if there is no such entry, or is as that of Spend.
// Do not publish a release whose Commit failed: VerifyFile will refuse it.
func (l *Ledger) Commit(ctx context.Context, entry string, file []byte) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.write(ctx, func() (any, error) {
		e, err := l.entry(entry)
		if err == nil && e.File != "" {
			err = fmt.Errorf("%w: entry %d of %s has its file already: spend again for another release", ErrMismatch, e.Number,
				l.path)
		}
		return commitment{e.Number, now(), fileDigest(file)}, err
	})
	return err
}

// VerifyFile reads the ledger again and checks that the entry with this hash paid for the
// certificate c, and that file is the text that was committed for it. The error wraps ErrBroken,
// ErrBehind or ErrMismatch, also where no file was committed.
func (l *Ledger) VerifyFile(entry string, c dp.Certificate, file []byte) error {
	if err := l.usable(context.Background()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.reload(); err != nil {
		return err
	}
	e, err := l.entry(entry)
	if err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: entry %d of %s %s", ErrMismatch, e.Number, l.path, fmt.Sprintf(format, args...))
	}
	paid := dp.Budget{Epsilon: e.Epsilon, Delta: e.Delta}
	switch {
	case paid != c.Budget:
		return refuse("paid for %v, the file claims %v", paid, c.Budget)
	case e.Relation != c.Relation:
		return refuse("is about %v neighbors, the file claims %v", e.Relation, c.Relation)
	case e.Rows != c.Rows:
		return refuse("is about persons with at most %d lines that count (0: about records), the file claims %d", e.Rows,
			c.Rows)
	case e.Person != c.Person:
		return refuse("is about persons by the column %.40q, the file claims %.40q", e.Person, c.Person)
	case e.Theorem != c.Theorem:
		return refuse("rests on theorem %q, the file claims %q", e.Theorem, c.Theorem)
	case e.File == "" && e.Nonce == "":
		return refuse("was written by version 0.1.0, which committed to no file: whether this one belongs to it cannot " +
			"be seen")
	case e.File == "":
		return refuse("has no file committed: its fit ended before there was one, so that this file is not from that fit")
	case e.File != fileDigest(file):
		return refuse("committed to another file, with the SHA-256 %.12s…: this one was edited, or is a second release",
			e.File)
	}
	return nil
}

// entry returns the entry with a hash.
func (l *Ledger) entry(hash string) (Entry, error) {
	for _, e := range l.s.entries {
		if e.Hash == hash {
			return e, nil
		}
	}
	return Entry{}, lacks(l.path, hash)
}

func fileDigest(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// Verify reads the file again and checks its chain of hashes, and that it holds every one of the
// heads: hashes that Head or an Entry had at some time. The error wraps ErrBroken or ErrBehind.
func (l *Ledger) Verify(heads ...string) error {
	if err := l.usable(context.Background()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.reload(); err != nil {
		return err
	}
	for _, h := range heads {
		if !slices.Contains(l.s.heads, h) {
			return lacks(l.path, h)
		}
	}
	return nil
}

// Path returns the name of the file.
func (l *Ledger) Path() string { return filepath.Clean(l.path) }

// Head returns the hash of the last line, as of the last reading. That line may be one that Commit
// wrote: [Ledger.Commit] wants the Hash of an [Entry] instead.
func (l *Ledger) Head() string { return l.read().head() }

// Terms returns the terms.
func (l *Ledger) Terms() Terms {
	t := l.read().terms
	t.Orders = slices.Clone(t.Orders)
	return t
}

// Entries returns the entries as of the last reading.
func (l *Ledger) Entries() []Entry { return slices.Clone(l.read().entries) }

// Spent returns Σ εᵢ and Σ δᵢ, rounded up.
func (l *Ledger) Spent() dp.Budget { return l.read().spent.budget() }

// Used returns what the entries have used of every total of every filter.
func (l *Ledger) Used() []Use {
	s := l.read()
	used, before := s.spent.uses(s.terms), s.before
	before.alone = s.spent.alone
	for i, b := range before.uses(s.terms) {
		used[i].Last = max(0, used[i].Used-b.Used)
	}
	return used
}

func (l *Ledger) read() *state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s
}
