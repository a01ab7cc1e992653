// Package ledger keeps a file of the budgets spent on a data set, and refuses a release that would
// exceed a declared total:
//
//	l, err := ledger.Open("adult.ledger")
//	if err != nil {
//		return err
//	}
//	entry, err := l.Spend(ctx, plan, nil)
//	if err != nil {
//		return err // nothing was drawn, nothing may be released
//	}
//	release, err := plan.Fit(ctx, p, nil)
//	if err != nil {
//		return err
//	}
//	err = l.Commit(ctx, entry.Hash, file) // the text of the release, as it will be published
//
// Spend writes the entry and syncs it to the disk before it returns, hence before
// noise is drawn: a crash after that has spent its entry. Commit adds the SHA-256 of
// the file that publishes the release. A crash between the two leaves an entry that is
// spent and that no file belongs to.
//
// # Locking
//
// Processes that use one ledger at once wait for each other. The lock is one of the
// file itself, not of its name: symbolic links, hard links and other spellings of its
// path lead to the same lock, on Windows too. After it has the lock, Spend opens the
// name again and starts anew unless that leads to the locked file. A name that
// another program gives a new file, as editors and backups do when they save by
// renaming, is another ledger from then on; hard links keep the old one.
//
// What is not known: bind mounts of one machine show the same file and so the same
// lock on Linux, but no test covers them, and none runs on Windows. A lock on a network
// file system (NFS, SMB, FUSE, folders that a program synchronizes) may not reach other
// machines, and then two machines may spend the same budget. Spend reads the file again
// behind its entry and refuses where another writer has overwritten it, which finds
// some such cases and not all. Keep a ledger on a local disk of the one machine that fits.
//
// # Composition
//
// Plans are chosen with knowledge of earlier releases, so that their profiles
// may not be composed as if they had been fixed beforehand. A plan is admitted
// if one of the following filters with the total (ε, δ) and m = 1 + |Orders|
// admits it:
//
//	basic    Σ εᵢ ≤ ε and Σ δᵢ ≤ δ/m                                [RRUV16]
//	order α  Σ RDPᵢ(α) ≤ B(α), which implies (ε, (1−2⁻¹⁰)δ/m),      [FZ21], [CKS20]
//	         and (1+e^ε) Σ Failureᵢ ≤ 2⁻¹⁰δ/m
//
// one for each α of Terms.Orders, which are fixed when the ledger is made. Each filter sums up all
// entries, so that a run which one of them still admits is the run that it alone would have
// stopped, and the δ of the filters add up: docs/theory/composition.md#ledger.basic and
// docs/theory/composition.md#ledger.order. Without Orders that is basic composition of the whole
// total. With them, a total serves many small releases better and a single large one worse.
//
// Sums of ε and δ are exact sums of the decimal numbers that the file shows.
//
// # What the file proves
//
// Every line carries the SHA-256 of itself and the line before, and every entry 128
// random bits. An edit that does not compute all later hashes anew breaks the chain,
// and is refused. VerifyFile compares a published file with its entry: theorem,
// relation, ε, δ and every byte. Nothing here is signed: whoever may write the ledger
// can cut it off after a whole line, put an older copy in its place, or write all its
// hashes anew, and the file is consistent in itself. Only a hash recorded elsewhere
// shows that, such as the one that every model keeps, see Ledger.Verify: the models of
// later entries find that an earlier line is another one, and the last entry has no
// such witness. Give copies of the head to somebody else where that matters.
//
// A ledger of version 0.1.0, whose entries have neither random bits nor digests, is
// opened and continued; its old entries stay charged, and their models cannot be
// verified. Version 0.1.0 refuses a ledger with a new entry. Do not run both versions
// on one ledger at once, for their locks differ.
//
// # References
//
//	[CKS20]   Canonne, Kamath, Steinke. The Discrete Gaussian for Differential
//	          Privacy. NeurIPS 2020.
//	[FZ21]    Feldman, Zrnic. Individual Privacy Accounting via a Rényi Filter.
//	          NeurIPS 2021.
//	[RRUV16]  Rogers, Roth, Ullman, Vadhan. Privacy Odometers and Filters:
//	          Pay-as-you-Go Composition. NeurIPS 2016.
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
	// Total is the budget of all releases together.
	Total dp.Budget `json:"total"`
	// Relation is that of every plan; unset means dp.Replace.
	Relation dp.Relation `json:"relation"`
	// Orders are the orders α > 1 of Rényi filters, increasing; none means
	// basic composition only. See the package comment for their cost.
	Orders []float64 `json:"orders,omitempty"`
}

// Check returns an error wrapping ErrTerms unless the total and the relation are
// valid and the orders are increasing numbers in (1, 1e6], at most 64, with a
// positive δ.
func (t Terms) Check() error {
	if err := t.Total.Check(); err != nil {
		return fmt.Errorf("%w: Total: %w", ErrTerms, err)
	}
	if err := t.Relation.Check(); err != nil {
		return fmt.Errorf("%w: Relation: %w", ErrTerms, err)
	}
	if len(t.Orders) > 64 {
		return fmt.Errorf("%w: %d Orders, want at most 64", ErrTerms, len(t.Orders))
	}
	if len(t.Orders) > 0 && t.Total.Delta/float64(1+len(t.Orders)) < dp.MinDelta {
		return fmt.Errorf("%w: Total.Delta = %g, want a positive δ for Rényi filters, or no Orders", ErrTerms, t.Total.Delta)
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
	Assumptions []dp.Assumption `json:"assumptions"`
	// RDP bounds the Rényi divergences of the orders of the terms; nil if no
	// bound is known.
	RDP []float64 `json:"rdp,omitempty"`
	// Failure is that of the profile of the plan: RDP holds but for an event of this
	// probability. What has RDP and no Failure in version 0.1.0 counts with 2⁻⁵⁷δ.
	Failure float64 `json:"failure,omitempty"`
	Plan    string  `json:"plan"` // prose
	// Nonce holds 128 random bits as 32 hexadecimal digits, so that no two entries
	// are equal; "" in entries of version 0.1.0.
	Nonce string `json:"nonce,omitempty"`
	// Hash is that of the entry and all before it, as 64 hexadecimal digits.
	Hash string `json:"-"`
	// File is the SHA-256 of the file that was committed, as 64 hexadecimal digits,
	// "" before Commit.
	File string `json:"-"`
}

// Ledger is an open ledger file. It is safe for concurrent use, and other
// processes may use the file as well.
type Ledger struct {
	path string
	mu   sync.Mutex
	s    *state
}

// Create makes a ledger file, which must not exist. The error wraps ErrTerms, or
// fs.ErrExist.
func Create(path string, t Terms) (*Ledger, error) {
	if t.Relation == 0 {
		t.Relation = dp.Replace
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	t.Orders = slices.Clone(t.Orders)
	line, err := first(t)
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

// Open reads a ledger file and checks its chain of hashes. The error wraps
// ErrBroken, or that of reading the file.
func Open(path string) (*Ledger, error) {
	l := &Ledger{path: path}
	return l, l.reload()
}

// reload reads the file again.
func (l *Ledger) reload() error {
	text, err := os.ReadFile(l.path)
	if err != nil {
		return prefix.Errorf("ledger: %w", err)
	}
	return l.update(text)
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

// write appends the line that next makes of the newest state, under the lock of the
// file, and returns its hash.
func (l *Ledger) write(ctx context.Context, next func() (line any, err error)) (hash string, err error) {
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
		return "", fmt.Errorf("%w: %s lacks the line that was just written, which another program replaced or another machine overwrote: %s",
			ErrBehind, l.path, warning)
	}
	return hash, nil
}

// Spend enters a release of the plan and returns when the entry is on the disk.
// Only then may noise be drawn for it, once, from src. It waits for other
// processes until ctx is done.
//
// src is the source that the fit will get and must be nil, the secure one:
// releases whose noise can be drawn again are refused with ErrSeeded. The error
// wraps ErrOverspent if the total does not admit the plan, dp.ErrRelation if the
// plan is about other neighbors, dp.ErrCondition or dp.ErrBudget if it has no
// certificate, ErrBusy, ErrBroken or ErrBehind. After an error of writing the
// entry may be in the file and then counts as spent.
func (l *Ledger) Spend(ctx context.Context, plan dp.Plan, src rand.Source) (Entry, error) {
	if src != nil {
		return Entry{}, fmt.Errorf("%w: the source is not nil: leave out the seed, or fit without the ledger and release nothing", ErrSeeded)
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
		return Entry{}, fmt.Errorf("%w: the certificate assumes that a caller's source is secret: use the secure source", ErrSeeded)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var e Entry
	hash, err := l.write(ctx, func() (any, error) {
		t := l.s.terms
		if c.Relation != t.Relation {
			return nil, fmt.Errorf("%w: the plan is about %v neighbors, want %v, as the ledger declares", dp.ErrRelation, c.Relation, t.Relation)
		}
		p := plan.Profile()
		e = Entry{
			Number: len(l.s.entries) + 1, Time: now(), Theorem: c.Theorem,
			Epsilon: c.Epsilon, Delta: c.Delta, Relation: c.Relation, Assumptions: c.With(dp.Declared(plan)...).Assumptions,
			RDP: curve(t.Orders, p.RDP, c.Budget), Failure: p.Failure, Plan: plan.String(), Nonce: bits(),
		}
		return e, l.s.spent.admits(t, e)
	})
	if err != nil {
		return Entry{}, err
	}
	e.Hash = hash
	return e, nil
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

// Commit writes behind the entries that file, the whole text in which the release of
// the entry with this hash is published, belongs to it, and returns when that is on the
// disk. An entry has one file: the error wraps ErrMismatch if it has another one,
// ErrBehind if there is no such entry, or is as that of Spend. A release whose Commit
// failed is not to be published, since VerifyFile will refuse it.
func (l *Ledger) Commit(ctx context.Context, entry string, file []byte) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.write(ctx, func() (any, error) {
		e, err := l.entry(entry)
		if err == nil && e.File != "" {
			err = fmt.Errorf("%w: entry %d of %s has its file already: spend again for another release", ErrMismatch, e.Number, l.path)
		}
		return commitment{e.Number, now(), fileDigest(file)}, err
	})
	return err
}

// VerifyFile reads the ledger again and checks that the entry with this hash paid for
// the certificate c, and that file is the text that was committed for it. The error
// wraps ErrBroken, ErrBehind or ErrMismatch. A file whose fit ended before Commit, or
// whose entry is of version 0.1.0, is refused as not committed.
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
	case e.Theorem != c.Theorem:
		return refuse("rests on theorem %q, the file claims %q", e.Theorem, c.Theorem)
	case e.File == "" && e.Nonce == "":
		return refuse("was written by version 0.1.0, which committed to no file: whether this one belongs to it cannot be seen")
	case e.File == "":
		return refuse("has no file committed: its fit ended before there was one, so that this file is not from that fit")
	case e.File != fileDigest(file):
		return refuse("committed to another file, with the SHA-256 %.12s…: this one was edited, or is a second release", e.File)
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
	return Entry{}, l.s.lacks(l.path, hash)
}

func fileDigest(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// Verify reads the file again and checks its chain of hashes, and that it holds
// every one of the heads, which are hashes that Head or Entry gave at some time,
// such as those of models. The error wraps ErrBroken or ErrBehind.
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
			return l.s.lacks(l.path, h)
		}
	}
	return nil
}

// Path returns the name of the file.
func (l *Ledger) Path() string { return filepath.Clean(l.path) }

// Head returns the hash of the last entry, or of the terms before the first, as
// of the last reading.
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

func (l *Ledger) read() *state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s
}
