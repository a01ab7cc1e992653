// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/dp/ledger"
	"github.com/privopt/privopt/internal/prefix"
	"github.com/privopt/privopt/model"
	"github.com/privopt/privopt/model/score"
	"github.com/privopt/privopt/table"
)

// Exit codes, listed in rootHelp.
const (
	exitOK        = 0
	exitFailure   = 1
	exitUsage     = 2
	exitRefused   = 3
	exitWithheld  = 4
	exitCancelled = 130
)

// errUsage reports that the user has to change the command line or a file that it names.
var errUsage = errors.New("usage")

// usageError is errUsage with a message of its own.
type usageError struct{ error }

func (usageError) Is(target error) bool { return target == errUsage }
func (e usageError) Unwrap() error      { return e.error }

// Usagef formats an error with exit code 2, for a command line that the user has to change.
func Usagef(format string, args ...any) error { return usagef(format, args...) }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func exitCode(err error) int {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
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
	case is(table.ErrSchema, table.ErrTable, model.ErrOptions, model.ErrFile, score.ErrOptions, score.ErrFile,
		ledger.ErrTerms):
		return exitUsage
	}
	return exitFailure
}

// noted adds a note to an error, about the state that the error leaves.
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

// parsing matches the text of the errors of package strconv.
var parsing = regexp.MustCompile(`strconv\.\w+: parsing .*$`)

// kindOfError matches the names of kinds of errors. The text that follows says what is wrong.
var kindOfError = regexp.MustCompile(`(^|: )invalid (table|schema|options|file|model file): `)

// clean returns the message of an error on one line, without the names of packages and kinds.
func clean(err error) string {
	return kindOfError.ReplaceAllString(strings.Join(strings.Fields(prefix.Strip(err)), " "), "$1")
}
