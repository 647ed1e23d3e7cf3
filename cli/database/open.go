package database

import (
	"context"
	"errors"
	"strings"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
)

// Options say how to open the store of a database.
type Options struct {
	Address     *pgkv.Address
	Connections int             // of readers; 0 is the engine's default
	Mute        bool            // the key is not that of the servers, so they would drop notes
	Store       datadir.Options // what does not concern a directory
}

// commandConnections are enough for one command.
const commandConnections = 4

// Engine is the engine of a database as package datadir has it.
type Engine struct {
	*pgkv.DB
	Address *pgkv.Address
}

// labelNotes labels the notes that servers send each other about commits.
const labelNotes = "notes"

const readyWithin = 2 * time.Second

// Ready returns why a request would be refused now, or nil.
func (e *Engine) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	return e.DB.Ready(ctx)
}

// open opens the engine, and creates the tables in an empty database.
func open(ctx context.Context, o Options) (*Engine, error) {
	db, err := pgkv.Open(ctx, pgkv.Options{
		Address: o.Address, Connections: o.Connections, Log: o.Store.Log,
		OnFatal: o.Store.OnFatal, OnCommit: o.Store.OnCommit,
		Mute: o.Mute, SealNote: func(plain []byte) string { return o.Store.Key.Seal(labelNotes, plain) },
		OpenNote: func(sealed string) ([]byte, bool) { return o.Store.Key.Open(labelNotes, sealed) },
	})
	if err != nil {
		return nil, err
	}
	return &Engine{DB: db, Address: o.Address}, nil
}

// Opened is an open store with what its servers agreed on.
type Opened struct {
	*datadir.Opened
	Agreed Agreed
	Key    string // the fingerprint of the servers' key, or ""

	Created bool // the tables were created
}

// ErrEmpty means that the database has no tables of tollhouse.
var ErrEmpty = errors.New("the database has no data")

// Open opens the store for a command. It returns [ErrEmpty] for an empty database, unless
// makes is true: then it creates the tables.
func Open(ctx context.Context, o Options, makes bool) (*Opened, error) {
	opened, err := openFor(ctx, o, makes)
	return opened, openFault(o.Address, err)
}

func openFor(ctx context.Context, o Options, makes bool) (*Opened, error) {
	made, err := isMade(ctx, o.Address)
	switch {
	case err != nil:
		return nil, err
	case !made && !makes:
		return nil, ErrEmpty
	}
	o.Connections = commandConnections
	db, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	site, err := readSite(ctx, o.Address)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	agreed, err := ReadAgreed(site)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	agreed.applyTo(&o.Store)
	data, err := datadir.OpenOver(ctx, db, o.Store)
	if err != nil {
		return nil, err
	}
	return &Opened{Opened: data, Agreed: agreed, Key: site[pgkv.SiteKey], Created: !made}, nil
}

func isMade(ctx context.Context, a *pgkv.Address) (bool, error) {
	s, err := pgkv.DialFirst(ctx, a)
	if err != nil {
		return false, err
	}
	defer s.Close()
	return s.IsMade(ctx)
}

func readSite(ctx context.Context, a *pgkv.Address) (map[string]string, error) {
	s, err := pgkv.Dial(ctx, a)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Site(ctx)
}

// openFault gives an error of the engine its exit code.
func openFault(a *pgkv.Address, err error) error {
	if errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, pgkv.ErrExclusive) {
		return unreachable(a, err)
	}
	return err
}

// lasts reports whether the database is away until somebody changes a setting.
func lasts(err error) bool {
	away, is := errors.AsType[*pgkv.AwayError](err)
	return is && away.Lasts
}

func joined(hosts []string) string { return strings.Join(hosts, ", ") }

// startWithin is how long a server tries to reach the database, so that both may be
// started together.
const (
	startWithin = 15 * time.Second
	startPause  = time.Second
)

// Serve opens the store for a server and joins the others. It tries for 15 seconds while
// no primary answers, but not for what somebody has to correct. The caller must run the presence and close the store.
func Serve(ctx context.Context, o Options, join pgkv.PresenceOptions, rules Rules) (data *datadir.Opened, p *pgkv.Presence, err error) {
	join.Address, join.Log, join.Judge = o.Address, o.Store.Log, rules.judge
	rules.Agreed.applyTo(&o.Store)
	deadline := time.Now().Add(startWithin)
	for warned := false; ; warned = true {
		data, p, err = serve(ctx, o, join)
		if !errors.Is(err, kv.ErrUnavailable) || lasts(err) || time.Now().After(deadline) {
			return data, p, openFault(o.Address, err)
		}
		if !warned {
			o.Store.Log.Warn("waiting for the database", "err", err)
		}
		if err := term.Sleep(ctx, startPause); err != nil {
			return nil, nil, err
		}
	}
}

func serve(ctx context.Context, o Options, join pgkv.PresenceOptions) (*datadir.Opened, *pgkv.Presence, error) {
	made, err := isMade(ctx, o.Address)
	if err != nil {
		return nil, nil, err
	}
	db, err := open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	var p *pgkv.Presence
	if err = holdCopied(ctx, db, o.Store.Log); err == nil {
		p, err = pgkv.Join(ctx, join)
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	data, err := datadir.OpenOver(ctx, db, o.Store)
	if err != nil {
		p.Leave()
		return nil, nil, err
	}
	if !made {
		o.Store.Log.Warn("new store created: the database had no data", "database", o.Address.String())
	}
	return data, p, nil
}
