package snapshot

import "fmt"

// Fault says in which way a document is not acceptable.
type Fault uint8

// The faults there are.
const (
	Malformed       Fault = iota // not JSON as we read it
	TooLarge                     // too deep or too long
	UnknownField                 // a member that the kind does not have
	InvalidField                 // a member of the wrong sort or form
	SensitiveField               // a value that must not be kept
	MismatchedField              // an id or object that is not the one of the path
)

// Error says what is wrong with a document, where, and what would be right. Its
// text is for the person who sent the document.
type Error struct {
	Fault  Fault
	Path   string // the member at fault, as in lines[2].amount; "" for the whole
	Reason string // a sentence without its full stop
}

func (e *Error) Error() string { return e.Reason }

func fault(f Fault, path, format string, args ...any) *Error {
	return &Error{Fault: f, Path: path, Reason: fmt.Sprintf(format, args...)}
}
