package enroll

import (
	"errors"
	"fmt"

	"github.com/pinta-ai/pinta-agent/enroll/token"
)

// Exit codes of `pinta-agent enroll` (manager.md 7).
const (
	CodeDone        = 0
	CodeUsage       = 2 // no token, a placeholder, two lines
	CodeRefused     = 3 // by the Manager, or damaged
	CodeUnreachable = 4
	CodeElsewhere   = 5
	CodeLocal       = 6
)

// Error is a failed enrolment with its exit code. Its text says what to do and
// never holds a token.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Code is the exit code for an error of this package; an error that says
// nothing of it is a local fault.
func Code(err error) int {
	if err == nil {
		return CodeDone
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeLocal
}

func fail(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// tokenError gives what token.Parse says its exit code.
func tokenError(source string, err error) error {
	code := CodeRefused
	if errors.Is(err, token.ErrEmpty) || errors.Is(err, token.ErrPlaceholder) || errors.Is(err, token.ErrTwoLines) {
		code = CodeUsage
	}
	return fail(code, "token from %s: %w", source, err)
}
