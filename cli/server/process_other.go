//go:build !unix

package server

import "tollhouse/cli/term"

// orphaned fails: on this system a process cannot tell that its parent has exited.
func orphaned() (<-chan struct{}, error) {
	return nil, term.Usage("stop it by its pid, which is in the ready line", "--exit-with-parent is not supported on this system")
}

func hasTerminal() bool { return true }

func dumpNoCore() {}

func isWritable(string) error { return nil }
