package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/table"
)

// Exit codes, as the package comment lists them.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitRefused   = 3
	exitWithheld  = 4
	exitCancelled = 130
)

// errUsage reports a command line, or a file it names, that the caller has to change.
var errUsage = errors.New("usage")

// usageError is a message without the text of errUsage.
type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }
func (e usageError) Unwrap() error      { return e.error }

// Usagef is an error with the exit code of a command line that the caller has to change.
func Usagef(format string, args ...any) error { return usagef(format, args...) }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func exitCode(err error) int {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	var file *os.PathError
	switch {
	case err == nil:
		return exitOK
	case is(context.Canceled):
		return exitCancelled
	case is(errUsage, dp.ErrBudget):
		return exitUsage
	case is(dp.ErrCondition, dp.ErrRelation, ledger.ErrOverspent, ledger.ErrSeeded, ledger.ErrBroken, ledger.ErrBehind,
		ledger.ErrMismatch):
		return exitRefused
	case is(dp.ErrWithheld):
		return exitWithheld
	case errors.As(err, &file):
		return exitFailure
	case is(table.ErrSchema, table.ErrTable, model.ErrOptions, model.ErrFile, ledger.ErrTerms):
		return exitUsage
	}
	return exitFailure
}

// noted adds to an error what the user should know about the state it leaves.
type noted struct {
	error
	note string
}

func (n noted) Unwrap() error { return n.error }
func (n noted) Error() string { return n.error.Error() + "; " + n.note }

// suffix returns the note of an error.
func suffix(err error) string {
	if n, ok := errors.AsType[noted](err); ok {
		return "; " + n.note
	}
	return ""
}

// parsing is how package strconv words what is no number.
var parsing = regexp.MustCompile(`strconv\.\w+: parsing .*$`)

// clean keeps a message on one line and leaves out the names of packages.
func clean(err error) string { return strings.Join(strings.Fields(prefix.Strip(err)), " ") }
