package sweep

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/privopt/privopt/dp"
)

// ErrUsage reports a flag, file or value that the caller of the program has to
// change. Test with errors.Is.
var ErrUsage = errors.New("usage")

// usageError is a message without the sentinel's own text.
type usageError struct{ error }

func (usageError) Is(target error) bool { return target == ErrUsage }
func (e usageError) Unwrap() error      { return e.error }

// Usagef returns an error with the formatted text that wraps ErrUsage.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Refuse is Usagef where bad is true, else nil.
func Refuse(bad bool, format string, args ...any) error {
	if !bad {
		return nil
	}
	return Usagef(format, args...)
}

// Exit codes of the programs of this module.
const (
	ExitOK          = 0
	ExitFailure     = 1   // a file, a pipe, an overflow
	ExitUsage       = 2   // bad flag, file or budget value
	ExitCondition   = 3   // a privacy condition of a theorem is unmet
	ExitWithheld    = 4   // a release was withheld
	ExitInterrupted = 130 // Ctrl-C or SIGTERM
)

// ExitCode maps err to the exit code of the program.
func ExitCode(err error) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return ExitOK
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, ErrUsage) || errors.Is(err, dp.ErrBudget):
		return ExitUsage
	case errors.Is(err, dp.ErrCondition):
		return ExitCondition
	case errors.Is(err, dp.ErrWithheld):
		return ExitWithheld
	}
	return ExitFailure
}

// Main runs a program that ends in order on SIGINT and SIGTERM: the first one
// cancels the context, a second one ends the process at once. Writes to a
// closed pipe return syscall.EPIPE instead of killing the process.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// report writes err as the one line that a program ends with. A reader that
// closed the pipe wants to hear nothing.
func report(stderr io.Writer, name string, err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, io.ErrClosedPipe) {
		fmt.Fprintf(stderr, "%s: %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
	}
}

// Version is the version of the module that holds the program, as the go command recorded it.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
