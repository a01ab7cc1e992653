// Package ledger keeps what was spent on a data set in a file, and refuses what
// would exceed a declared total:
//
//	l, err := ledger.Open("adult.ledger")
//	if err != nil {
//		return err
//	}
//	if _, err := l.Spend(ctx, plan, nil); err != nil {
//		return err // nothing was drawn, nothing may be released
//	}
//	release, err := plan.Fit(ctx, p, nil)
//
// Spend writes the entry and syncs it to the disk before it returns, hence before
// noise is drawn: a crash after that has spent its entry. Processes that use one
// ledger at once wait for each other.
//
// # Composition
//
// Plans are chosen with knowledge of earlier releases, so that their profiles
// may not be composed as if they had been fixed beforehand. A plan is admitted
// if one of the following filters with the total (ε, δ) and m = 1 + |Orders|
// admits it:
//
//	basic    Σ εᵢ ≤ ε and Σ δᵢ ≤ δ/m                                [RRUV16]
//	order α  Σ RDPᵢ(α) ≤ B(α), which implies (ε, δ/m)               [FZ21], [CKS20]
//
// one for each α of Terms.Orders, which are fixed when the ledger is made. Why
// their alternative is proved: stop the releases where filter k refuses; what
// comes out is (ε, δ/m)-differentially private. Every whole run agrees with the
// run stopped by some k, on which the privacy loss L is the same, so that
//
//	E[(1 − e^{ε−L})₊] ≤ Σ_k E[(1 − e^{ε−L_k})₊] ≤ m·δ/m = δ.
//
// Without Orders that is basic composition of the whole total. With them, a
// total serves many small releases better and a single large one worse.
//
// Sums of ε and δ are exact sums of the decimal numbers that the file shows.
//
// # What the file proves
//
// Every line carries the SHA-256 of itself and the line before. An edit that does
// not compute all later hashes anew breaks the chain, and is refused. A file that
// was cut off after a whole line, or written anew, is consistent in itself: only
// a head recorded elsewhere shows it, such as the one that every model keeps, see
// Ledger.Verify.
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
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/wholefile"
)

// Errors of this package. Test with errors.Is.
var (
	// ErrTerms reports terms that make no ledger.
	ErrTerms = errors.New("ledger: invalid terms")
	// ErrOverspent reports a plan that the total does not admit.
	ErrOverspent = errors.New("ledger: the total would be exceeded")
	// ErrSeeded reports noise that somebody could draw again.
	ErrSeeded = errors.New("ledger: reproducible noise is not private")
	// ErrBroken reports a file that is no ledger or was edited.
	ErrBroken = errors.New("ledger: the file is broken")
	// ErrBehind reports a ledger that lacks an entry whose hash is known.
	ErrBehind = errors.New("ledger: the file is behind")
	// ErrBusy reports that other processes kept the lock.
	ErrBusy = errors.New("ledger: locked by another process")
)

// Terms are fixed when a ledger is made.
type Terms struct {
	// Total is the budget of all releases together.
	Total dp.Budget `json:"total"`
	// Relation is that of every plan; unset means dp.Replace.
	Relation dp.Relation `json:"relation"`
	// Orders are the orders α > 1 of Rényi filters, increasing; none means
	// basic composition only. See the package comment for what they cost.
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
	RDP  []float64 `json:"rdp,omitempty"`
	Plan string    `json:"plan"` // prose
	// Hash is that of the entry and all before it, as 64 hexadecimal digits.
	Hash string `json:"-"`
}

// Ledger is an open ledger file. It is safe for concurrent use, and other
// processes may use the file as well.
type Ledger struct {
	path string
	mu   sync.Mutex
	s    *state
}

// Create makes a ledger file, which must not exist, and an empty file beside it
// with .lock added to its name, which processes lock. The error wraps ErrTerms,
// or fs.ErrExist.
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
	l := &Ledger{path: path}
	unlock, err := l.lock(context.Background(), time.Second)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("ledger: %s: %w: open it, or choose another name", path, os.ErrExist)
	}
	if err := wholefile.Write(path, line, 0o600); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return Open(path)
}

// Open reads a ledger file and checks its chain of hashes. The error wraps
// ErrBroken, or that of reading the file.
func Open(path string) (*Ledger, error) {
	l := &Ledger{path: path}
	return l, l.reload()
}

// reload reads the file again. What was known has to be in it.
func (l *Ledger) reload() error {
	text, err := os.ReadFile(l.path)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
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

// lock takes the lock of the file: a file of its own beside it, since some
// systems forbid to read a locked file.
func (l *Ledger) lock(ctx context.Context, most time.Duration) (unlock func(), err error) {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	f := flock.New(l.path + ".lock")
	ok, err := f.TryLockContext(ctx, 5*time.Millisecond)
	switch {
	case ok:
		return func() { f.Close() }, nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nil, fmt.Errorf("%w: %s: %w: try again when it is done", ErrBusy, l.path+".lock", err)
	}
	return nil, fmt.Errorf("ledger: %s: %w", l.path+".lock", err)
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
	switch {
	case l == nil:
		return Entry{}, fmt.Errorf("%w: the ledger is nil, want one made by Create or Open", ErrTerms)
	case ctx == nil:
		return Entry{}, fmt.Errorf("%w: ctx is nil, want one such as context.Background()", dp.ErrCondition)
	case plan == nil:
		return Entry{}, fmt.Errorf("%w: the plan is nil, want one that a calibration made", dp.ErrCondition)
	}
	c := plan.Certificate()
	if err := c.Check(); err != nil {
		return Entry{}, fmt.Errorf("ledger: the plan has no valid certificate: %w", err)
	}
	if slices.Contains(c.Assumptions, dp.CallerSource) {
		return Entry{}, fmt.Errorf("%w: the certificate assumes that a caller's source is secret: use the secure source", ErrSeeded)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := l.lock(ctx, 0)
	if err != nil {
		return Entry{}, err
	}
	defer unlock()
	if err := l.reload(); err != nil {
		return Entry{}, err
	}
	t := l.s.terms
	if c.Relation != t.Relation {
		return Entry{}, fmt.Errorf("%w: the plan is about %v neighbors, want %v, as the ledger declares", dp.ErrRelation, c.Relation, t.Relation)
	}
	e := Entry{
		Number: len(l.s.entries) + 1, Time: time.Now().UTC().Truncate(time.Second), Theorem: c.Theorem,
		Epsilon: c.Epsilon, Delta: c.Delta, Relation: c.Relation, Assumptions: append([]dp.Assumption{}, c.Assumptions...),
		RDP: curve(t.Orders, plan.Profile().RDP, c.Budget), Plan: plan.String(),
	}
	if err := l.s.spent.admits(t, e); err != nil {
		return Entry{}, err
	}
	line, hash, err := seal(e, l.s.head())
	if err != nil {
		return Entry{}, err
	}
	if err := l.s.append(l.path, line); err != nil {
		return Entry{}, fmt.Errorf("ledger: writing entry %d: %w: release nothing; the entry may count as spent", e.Number, err)
	}
	e.Hash = hash
	return e, l.reload()
}

// Verify reads the file again and checks its chain of hashes, and that it holds
// every one of the heads, which are hashes that Head or Entry gave at some time,
// such as those of models. The error wraps ErrBroken or ErrBehind.
func (l *Ledger) Verify(heads ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.reload(); err != nil {
		return err
	}
	for _, h := range heads {
		if !slices.Contains(l.s.heads, h) {
			return fmt.Errorf("%w: %s has %d entries and none of them is %.12s…, which was recorded elsewhere: entries were removed or it is "+
				"another ledger; restore it from a copy",
				ErrBehind, l.path, len(l.s.entries), h)
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

// Entries returns what was spent, as of the last reading.
func (l *Ledger) Entries() []Entry { return slices.Clone(l.read().entries) }

// Spent returns Σ εᵢ and Σ δᵢ, rounded up.
func (l *Ledger) Spent() dp.Budget { return l.read().spent.budget() }

func (l *Ledger) read() *state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s
}
