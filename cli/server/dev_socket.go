package server

import (
	"errors"
	"os"
	"path/filepath"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
)

// listenForDevAdmin opens dev's admin socket: the one of --admin-socket, or one in a
// private directory of its own. Where no directory can be written, dev has none: it
// needs nothing but the binary. stop closes the socket and removes the directory.
func (p *Program) listenForDevAdmin(r *running) (stop func(), err error) {
	if p.AdminSocket != "" {
		if r.admin, err = datadir.ListenAdmin(datadir.SocketPath(p.AdminSocket, ""), r.log); err != nil {
			return nil, err
		}
		r.at = "--admin-socket " + term.ShellQuote(r.admin.Addr().String())
		return func() { _ = r.admin.Close() }, nil
	}
	var failed error
	for _, parent := range devSocketParents() {
		if stop, err = r.listenForAdminIn(parent); err == nil {
			return stop, nil
		}
		failed = errors.Join(failed, err)
	}
	r.log.Warn("no admin socket: no directory for it can be written, so other commands cannot reach this instance", "err", failed)
	return func() {}, nil
}

// devSocketParents returns where the socket's directory may be. XDG_RUNTIME_DIR counts
// only if it is absolute, as its specification says.
func devSocketParents() []string {
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(runtime) {
		return []string{runtime, os.TempDir()}
	}
	return []string{os.TempDir()}
}

func (r *running) listenForAdminIn(parent string) (stop func(), err error) {
	dir, err := os.MkdirTemp(parent, "tollhouse-dev-") // mode 0700
	if err != nil {
		return nil, err
	}
	admin, err := datadir.ListenAdmin(datadir.SocketPath("", dir), r.log)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r.admin = admin
	r.at = "--admin-socket " + term.ShellQuote(admin.Addr().String())
	return func() { _ = errors.Join(admin.Close(), os.RemoveAll(dir)) }, nil
}
