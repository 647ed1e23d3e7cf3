package server

import (
	"context"
	"errors"
	"fmt"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/kv"
	"tollhouse/store/record"
)

const nextDamage = "stop the server, keep a copy of the data directory, restore the last complete backup, and test the machine's disk and memory"

func allRight(check, format string, args ...any) admin.Finding {
	return admin.Finding{Check: check, State: admin.StateOK, Detail: fmt.Sprintf(format, args...)}
}

func warningOf(check, next, format string, args ...any) admin.Finding {
	return admin.Finding{Check: check, State: admin.StateWarning, Next: next, Detail: fmt.Sprintf(format, args...)}
}

func problemOf(check, next, format string, args ...any) admin.Finding {
	return admin.Finding{Check: check, State: admin.StateProblem, Next: next, Detail: fmt.Sprintf(format, args...)}
}

// problemFrom returns the finding for err, with its hint, if any, as the next step.
func problemFrom(check, next string, err error) admin.Finding {
	f := term.FailureOf(err)
	if f.Hint != "" {
		next = f.Hint
	}
	return problemOf(check, next, "%s", f.Err)
}

// problemReading returns the finding for what could not be read: damage, or something that
// time or the operator can cure, such as too many open files.
func problemReading(check string, err error) admin.Finding {
	switch {
	case errors.Is(err, kv.ErrCorrupt):
		return problemFrom(check, nextDamage, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return warningOf(check, "run tollhouse doctor", "not checked: it took too long")
	case errors.Is(err, record.ErrUnavailable):
		return warningOf(check, "fix the cause and run doctor again", "not checked: %v", err)
	case errors.Is(err, errNotYet):
		return warningOf(check, "run tollhouse doctor", "not checked: %v", err)
	}
	return problemFrom(check, nextDamage, err)
}
