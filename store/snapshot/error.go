package snapshot

import "fmt"

// Fault is the kind of problem that a document has.
type Fault uint8

// The faults.
const (
	Malformed       Fault = iota // not JSON as we read it
	TooLarge                     // too deep or too long
	UnknownField                 // a member that the kind does not have
	InvalidField                 // a member of the wrong JSON kind or form
	SensitiveField               // a value that must not be kept
	MismatchedField              // an id or object that differs from the path's
)

// Error says what is wrong with a document, where, and what would be right. Its text
// is for the person who sent the document.
type Error struct {
	Fault  Fault
	Path   string // the member, such as lines[2].amount; "" is the whole document
	Reason string // a clause without a full stop
}

func (e *Error) Error() string { return e.Reason }

func fault(f Fault, path, format string, args ...any) *Error {
	return &Error{Fault: f, Path: path, Reason: fmt.Sprintf(format, args...)}
}
