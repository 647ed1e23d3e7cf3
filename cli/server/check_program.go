package server

import (
	"os"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

// programFile is the file that the server was started from.
type programFile struct {
	path string
	then os.FileInfo
}

// findProgram returns nil if the system does not say.
func findProgram() *programFile {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	then, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return &programFile{path, then}
}

// check reports whether the file on disk is still the one that runs. An upgrade replaces it, and
// what runs stays as old as it is until the server is restarted.
func (p *programFile) check(version string) admin.Finding {
	const check, next = "program", "restart the server"
	now, err := os.Stat(p.path)
	switch {
	case err != nil:
		return warningOf(check, "install it again", "%s is running, and its file cannot be found: %v", version, err)
	case os.SameFile(p.then, now) && p.then.ModTime().Equal(now.ModTime()) && p.then.Size() == now.Size():
		return allRight(check, "%s, as on disk", version)
	case now.ModTime().After(p.then.ModTime()):
		return warningOf(check, next, "%s is running, and %s on disk is newer: it is of %s", version, p.path, term.ShowTime(now.ModTime().Unix()))
	}
	return warningOf(check, next, "%s is running, and %s on disk is another one, of %s", version, p.path, term.ShowTime(now.ModTime().Unix()))
}

// CheckVersions compares a running server with the command that asks.
func CheckVersions(running, command string) admin.Finding {
	return warningOf("version", "restart the server if its program was upgraded, or run its own program", "the server is %s, and this command is %s", running, command)
}
