package server

import (
	"fmt"

	"tollhouse/cli/term"
	"tollhouse/handlers"
)

const nextDamage = "stop the server, keep a copy of the data directory, restore the last complete backup, and test the machine's disk and memory"

func allRight(check, format string, args ...any) handlers.Finding {
	return handlers.Finding{Check: check, State: handlers.StateOK, Detail: fmt.Sprintf(format, args...)}
}

func warningOf(check, next, format string, args ...any) handlers.Finding {
	return handlers.Finding{Check: check, State: handlers.StateWarning, Next: next, Detail: fmt.Sprintf(format, args...)}
}

func problemOf(check, next, format string, args ...any) handlers.Finding {
	return handlers.Finding{Check: check, State: handlers.StateProblem, Next: next, Detail: fmt.Sprintf(format, args...)}
}

// problemFrom returns the finding for err, with its hint, if any, as the next step.
func problemFrom(check, next string, err error) handlers.Finding {
	f := term.FailureOf(err)
	if f.Hint != "" {
		next = f.Hint
	}
	return problemOf(check, next, "%s", f.Err)
}
