package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/secret"
)

const (
	storeConnections    = 24
	storeConnectionsMin = 4
	storeConnectionsMax = 1000
)

// directoryFlags are the settings of serve that mean nothing for a database.
var directoryFlags = map[string]string{
	"data":         "leave it out: everything is in the database",
	"backup-every": "run tollhouse backup from a timer, or back up the database itself",
	"backup-keep":  "leave it out: backups are not made by a server",
	"backup-dir":   "leave it out: backups are not made by a server",

	"backup-then":           "leave it out: backups are not made by a server",
	"backup-then-timeout":   "leave it out: backups are not made by a server",
	"backup-recipient":      "give it to tollhouse backup: backups are not made by a server",
	"backup-recipient-file": "give it to tollhouse backup: backups are not made by a server",

	"memory": "leave it out: the database does the caching",
}

// checkDatabaseFlags refuses a wrong address, what does not go with --store, and settings
// out of range.
func (p *Program) checkDatabaseFlags(flags *pflag.FlagSet) error {
	for _, name := range []string{"data", "backup-every", "backup-keep", "backup-dir", "backup-recipient", "backup-recipient-file", "backup-then", "backup-then-timeout", "memory"} {
		if flags.Changed(name) {
			return term.Usage(directoryFlags[name], "--%s cannot be given with %s", name, p.Store.Flag())
		}
	}
	if n, _ := flags.GetInt("store-connections"); n < storeConnectionsMin || n > storeConnectionsMax {
		return term.Usage("give a number from 4 to 1000", "--store-connections %d is out of range", n)
	}
	if _, err := p.Store.Address(); err != nil {
		return err
	}
	if p.KeyFile == "" {
		return term.Fail(term.ExitConfig, "create one, copy it to all machines, and name it with --key-file: (umask 077; set -C; openssl rand -hex 32 > tollhouse.key)",
			"%s needs --key-file: all servers of a database need the same server key, which is not stored in it", p.Store.Flag())
	}
	return nil
}

// serveDatabase serves from a database, as one of several equal servers.
func (p *Program) serveDatabase(ctx context.Context, r *running, f serveFlags) error {
	address, err := p.Store.Address()
	if err != nil {
		return err
	}
	key, err := datadir.ReadKey(p.KeyFile, true, r.log)
	if err != nil {
		return err
	}
	if err := r.listen(f); err != nil {
		return err
	}
	stop := func(err error) {
		select {
		case r.fatal <- err:
		default: // another reason is known already
		}
	}
	watch := clockWatch{log: r.log}
	data, presence, err := database.Serve(ctx, database.Options{
		Address: address, Connections: f.connections,
		Store: datadir.Options{Key: key, Log: r.log, OnFatal: stop, OnHash: r.metrics.hashed, OnCommit: r.metrics.committed, AccountWrites: int64(f.accountWrites)},
	}, pgkv.PresenceOptions{
		Server: r.describe(), Jobs: f.jobs(), OnRefused: stop, OnLook: watch.look, OnSite: r.agreed.see,
	}, database.Rules{
		Key: key.Fingerprint(), NewKey: f.newKey, AcceptClock: f.acceptClock, Agreed: f.agreed(r.config),
	})
	if err != nil {
		return err
	}
	r.agreed.begin(f.agreed(r.config))
	warnOfLoss(ctx, address, r.log)
	// The server leaves the others only after its store is closed: until then a command
	// that needs the database to itself must wait.
	present, leave := context.WithCancel(context.Background())
	left := make(chan struct{})
	go func() {
		defer close(left)
		presence.Run(present)
	}()
	r.presence = presence
	r.current.Store(newInstance(data))
	if err = f.prepareStore(ctx, data.Store, r); err == nil {
		socket := ""
		if p.AdminSocket != "" {
			socket = datadir.SocketPath(p.AdminSocket, "")
		}
		err = p.serveStore(r, handlers.Config{Key: key}, socket, func(string) error { return nil })
	}
	err = errors.Join(err, data.Close())
	leave()
	<-left
	return err
}

// warnOfLoss warns of a database that acknowledges writes which a crash can undo.
func warnOfLoss(ctx context.Context, a *pgkv.Address, log *slog.Logger) {
	found, err := database.Look(ctx, a)
	if err != nil {
		return // the next request reports it
	}
	if f := databaseFinding(found.Facts); found.LosesWrites() {
		log.Warn("database loses acknowledged writes in a crash", "reason", f.Detail, "next", f.Next)
	}
}

// describe returns what the other servers learn of this one.
func (r *running) describe() pgkv.Server {
	id := secret.NewID(nil)
	host, _ := os.Hostname()
	return pgkv.Server{ID: id[:], Host: host, PID: os.Getpid(), Listen: addressesOf(r.listeners), Version: r.version, Started: time.Now().UTC().Truncate(time.Second)}
}

// jobs are those that a server with these settings can do for all.
func (f *serveFlags) jobs() []pgkv.Job {
	jobs := []pgkv.Job{pgkv.JobSweep, pgkv.JobCheck}
	if f.webhooks.on == "on" {
		jobs = append(jobs, pgkv.JobWebhooks)
	}
	if len(f.alarms.urls) > 0 || f.alarms.file != "" {
		jobs = append(jobs, pgkv.JobAlarm)
	}
	if f.tls.mode == tlsAuto {
		jobs = append(jobs, pgkv.JobACME)
	}
	return jobs
}

func (f *serveFlags) agreed(c serverConfig) database.Agreed {
	a := database.Agreed{Lifetimes: c.lifetimes, Retain: time.Duration(f.retain), AuditRetain: c.auditRetain, CardGuard: c.cardGuard, OpenKinds: f.openKinds, Feed: c.feed, SecondFactor: c.secondFactor}
	if c.publicURL != nil {
		a.PublicURL = c.publicURL.String()
	}
	return a
}

// clockWatch logs when the clocks begin to differ and when they agree again.
type clockWatch struct {
	log *slog.Logger
	off bool
}

// look is called by one goroutine at a time.
func (w *clockWatch) look(s pgkv.State) {
	err := database.CheckOffset(s.Clock)
	switch {
	case err != nil && !w.off:
		w.log.Warn("clock differs from the database's: not ready until they agree", "err", err)
	case err == nil && w.off:
		w.log.Info("clock agrees with the database's again")
	}
	w.off = err != nil
}
