package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"tollhouse/cli/datadir"
)

// once runs the program with a backup, to its end. Whatever it has started in its group is
// gone then.
func (t *backupThen) once(ctx context.Context, path string) error {
	if err := t.missing(); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command(t.program, path)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.dir, t.environment(path), w, w
	ownGroup(cmd)
	closeInherited()
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("%w: %w", errCannotRun, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		newProgramOutput(t.environ, func(line string) { t.log.Info("backup program", "line", line) }, func(lines, bytes int) {
			t.log.Info("backup program", "more_lines", lines, "more_bytes", bytes)
		}).read(r)
	}()
	err = t.wait(ctx, cmd)
	killGroup(cmd, true) // what it left behind
	select {
	case <-read:
	case <-time.After(thenOutputWait): // a process of another group has the pipe
		_ = r.Close()
		<-read
	}
	return err
}

// thenOutputWait is how long output is read after the program has ended.
const thenOutputWait = time.Second

// wait waits for the program, and ends it when its time is over or the server stops.
func (t *backupThen) wait(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := time.NewTimer(t.timeout)
	defer over.Stop()
	var grace time.Duration
	var reason error
	select {
	case err := <-ended:
		return err
	case <-over.C:
		grace, reason = t.grace, fmt.Errorf("it ran longer than %s", t.timeout)
	case <-ctx.Done():
		grace, reason = t.drain, errors.New("the server stopped")
	}
	killGroup(cmd, false)
	kill := time.NewTimer(grace)
	defer kill.Stop()
	stopped := ctx.Done()
	for {
		select {
		case <-ended:
			return reason
		case <-kill.C:
			killGroup(cmd, true)
			stopped = nil
		case <-stopped: // while it is given time
			stopped = nil
			kill.Reset(min(t.grace, t.drain))
		}
	}
}

// environment is the server's, without its own variables and with those that describe the
// backup.
func (t *backupThen) environment(path string) (environ []string) {
	for _, pair := range t.environ {
		name, _, _ := strings.Cut(pair, "=")
		if name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "TOLLHOUSE_") || strings.HasPrefix(name, "WATCHDOG_") || strings.HasPrefix(name, "LISTEN_") {
			continue
		}
		environ = append(environ, pair)
	}
	note := datadir.ReadNote(path)
	return append(environ, "TOLLHOUSE_BACKUP_FILE="+path, "TOLLHOUSE_BACKUP_BYTES="+strconv.FormatInt(note.Bytes, 10), "TOLLHOUSE_BACKUP_SHA256="+note.SHA256,
		"TOLLHOUSE_BACKUP_CREATED="+strconv.FormatInt(note.Created.Unix(), 10), "TOLLHOUSE_BACKUP_ENCRYPTED="+strconv.FormatBool(note.Encrypted), "TOLLHOUSE_INSTANCE="+note.Instance)
}
