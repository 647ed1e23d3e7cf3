// Package throttle slows down guessing and never locks an account. It counts failures for
// each username as typed, known or not; for each source; and for each client of the password
// grant, since one backend serves many people.
//
// [Throttle.Begin] admits an attempt at a password or says how long to wait, and [Try.End]
// counts its outcome (throttle.go). [Throttle.Failed] is for secrets that nobody can guess:
// those who have the right one never wait. bucket.go has the counters. own.go has the turns
// that a source without failures keeps, so that strangers cannot lock a user out. A client
// has its own bucket for each username, and so has a browser in which the user has signed in
// before: failures of strangers at the sign-in form affect neither.
//
// caller.go says who is charged for a hash. source.go says which networks an address counts
// for; web shares its budgets among the same ones.
//
// It keeps everything in bounded memory and needs a clock.
package throttle
