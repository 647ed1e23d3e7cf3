//go:build !unix

package server

import "os/exec"

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd, atOnce bool) {
	if atOnce {
		_ = cmd.Process.Kill()
	}
}

func closeInherited() {}

func isExecutable(string) bool { return true }
