package sweep

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress counts finished cells on standard error: a bar on a terminal, plain
// lines with Options.Progress elsewhere, nothing otherwise.
type progress struct {
	bar *progressbar.ProgressBar // nil without a terminal

	mu    sync.Mutex
	w     io.Writer // nil: silent
	name  string
	total int
	first int // cells that were finished before
	done  int
	start time.Time
	last  time.Time
	every time.Duration
}

// newProgress starts the count and shows its first state at once.
func newProgress(w io.Writer, o *Options, name string, total, done int) *progress {
	tty := isTerminal(w)
	if o.Quiet || !tty && !o.Progress {
		return &progress{}
	}
	now := time.Now()
	p := &progress{w: w, name: name, total: total, first: done, done: done, start: now, last: now, every: 2 * time.Second}
	// The bar moves the cursor: some users ask for plain text.
	if tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription(name),
			progressbar.OptionSetItsString("cells"),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetRenderBlankState(true),
			progressbar.OptionOnCompletion(func() { fmt.Fprintln(w) }),
		)
		if done > 0 {
			p.bar.Add(done)
		}
		return p
	}
	p.line(now)
	return p
}

// Progress counts total units of work on w as an experiment counts its cells: add after each, end
// after the last or at an interruption. Of o it reads Quiet and Progress.
func Progress(w io.Writer, o *Options, name string, total int) (add, end func()) {
	p := newProgress(w, o, name, total, 0)
	return p.add, p.close
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// add counts one finished cell.
func (p *progress) add() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if p.bar != nil {
		p.bar.Add(1)
		return
	}
	if now := time.Now(); p.done == p.total || now.Sub(p.last) >= p.every {
		p.last = now
		p.line(now)
	}
}

// line writes the count, the rate and the time left.
func (p *progress) line(now time.Time) {
	fmt.Fprintf(p.w, "%s: %d/%d cells", p.name, p.done, p.total)
	if fresh := p.done - p.first; fresh > 0 {
		elapsed := max(now.Sub(p.start), time.Microsecond)
		left := time.Duration(float64(elapsed) / float64(fresh) * float64(p.total-p.done))
		fmt.Fprintf(p.w, ", %.3g cells/s, %s left", float64(fresh)/elapsed.Seconds(), left.Round(time.Second/10))
	}
	fmt.Fprintln(p.w)
}

// close ends an unfinished bar, so that the next message has its own line.
func (p *progress) close() {
	if p.bar != nil && !p.bar.IsFinished() {
		fmt.Fprintln(p.w)
	}
}
