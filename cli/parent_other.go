//go:build !unix

package cli

// orphaned refuses: this system does not tell a process that it is an orphan.
func orphaned() (<-chan struct{}, error) {
	return nil, usage("end it by its pid, which the ready line has", "--exit-with-parent does not work on this system")
}
