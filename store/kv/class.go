package kv

// Class says what an update is for, from what is refused first to what is refused last
// when an engine's disk runs low.
type Class uint8

const (
	// Ordinary is every update that declares nothing: changes, imports, new records.
	Ordinary Class = iota
	// AccessOfBusiest is a sign-in, a grant or a refresh of one of the accounts that have
	// written most lately. They have filled the disk.
	AccessOfBusiest
	// Access is one of any other account.
	Access
	// Ending takes away what a caller has itself: a token, a session, an endpoint. It also
	// removes records in batches, after the change that counts.
	Ending
	// Ruling is an ending by an operator. It stays possible when callers have used up the
	// space that is reserved for their own endings.
	Ruling

	// Classes is the number of classes.
	Classes = int(Ruling) + 1
)

// String returns what the class is, in plural, for people.
func (c Class) String() string {
	return [Classes]string{
		"changes",
		"sign-ins and refreshes of the busiest writers",
		"sign-ins and refreshes of other accounts",
		"callers' own revocations",
		"actions of operators",
	}[c]
}

// Name returns the class as a machine reads it.
func (c Class) Name() string {
	return [Classes]string{"changes", "access_of_busiest", "access", "ending", "ruling"}[c]
}
