//go:build !unix

package server

import (
	"math"

	"tollhouse/cli/term"
)

// orphaned fails: on this system a process cannot tell that its parent has ended.
func orphaned() (<-chan struct{}, error) {
	return nil, term.Usage("end it by its pid, which the ready line has", "--exit-with-parent does not work on this system")
}

func filesMax() uint64 { return math.MaxUint64 }
