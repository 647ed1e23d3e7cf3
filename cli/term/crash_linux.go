package term

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const stderrFD = 2 // which the runtime writes to

// CrashApart returns a writer to standard error, if stderr is that, which a crash does not
// use. The runtime writes its report to descriptor 2 while everything else is stopped, so
// a pipe or terminal that nobody reads would keep a crashed server, and its locks, forever.
// The report gets an open file of its own that does not block: what does not fit is lost.
// Where the system refuses that, as on a socket, stderr is returned as it is.
func CrashApart(stderr io.Writer) io.Writer {
	f, ok := stderr.(*os.File)
	if !ok || f != os.Stderr {
		return stderr
	}
	var stat unix.Stat_t
	if unix.Fstat(stderrFD, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO && !IsTerminal(f) {
		return stderr
	}
	report, err := unix.Open("/proc/self/fd/2", unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return stderr
	}
	defer unix.Close(report)
	kept, err := unix.FcntlInt(stderrFD, unix.F_DUPFD_CLOEXEC, stderrFD+1)
	if err != nil {
		return stderr
	}
	if unix.Dup3(report, stderrFD, 0) != nil {
		_ = unix.Close(kept)
		return stderr
	}
	return os.NewFile(uintptr(kept), f.Name())
}
