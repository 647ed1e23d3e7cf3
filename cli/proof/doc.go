// Package proof holds tollhouse to its promises from the outside.
//
// Its tests build the program, start it as an operator does, and talk to it
// over TCP as its users do: with real OAuth client libraries for Go and for
// Node, with a real browser, with the commands of the README, and with a hand
// on the power switch. They import no package of the product. What they rely on
// is what scripts may rely on: the ready line, the commands, the paths and the
// fields.
//
// How a run goes: the first test builds the binary. Each starts a server of its
// own (dev in memory, or serve on a directory), reads its ready line and
// drives it. When the test ends the server is told to stop, must exit with 0,
// and what it has logged is searched for secrets.
//
// What comes from npm is in testdata/npm: a lock that pins every package, and a
// driver for each client library. It is installed once, into the user's cache
// directory, and never into the tree.
//
// Environment:
//
//	TOLLHOUSE_BINARY=FILE   prove this binary rather than the tree's own: a
//	                        release, or a weakened build that has to fail
//	                        (with -count=1: go test cannot see it change)
//	TOLLHOUSE_LONG=1        the long form of the tests that have one; 30m: that long of it
//	TOLLHOUSE_PICTURES=DIR  write pictures of the screens to this directory
//	CI=true                 a missing tool fails a test instead of skipping it
package proof
