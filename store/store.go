// Package store keeps tollhouse's clients, users, accounts, sessions, codes and token
// families, and enforces their rules. Package eventlog below it keeps events and
// resources; package record defines their common keys and encoding.
//
// Each method of [Store] is one transaction of the engine (package kv): what must
// agree is read and written together. A redeemed code, for example, is marked as used
// in the transaction that stores the first tokens of its family. Tokens are stored as
// hashes. A token is valid only while its family, client, user and account say so, and
// all of them are read at each use, so a revocation holds from the next request on.
//
// An account's name starts the key of everything it owns, so that no request can reach
// another account's data. The package knows no HTTP and no engine, and takes the time
// only from [Options].Now.
package store

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/backup"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/stats"
	"tollhouse/store/webhook"
)

// Now returns the time. It is injected for tests and `dev --clock`.
type Now func() time.Time

// Lifetimes are the lifetimes of tokens and sessions. See [DefaultLifetimes].
type Lifetimes struct {
	AccessToken  time.Duration // of an access token
	RefreshToken time.Duration // of a refresh token, from when it was issued
	Family       time.Duration // of all tokens of an authorization, from when it was given
	Code         time.Duration // of an authorization code
	SessionIdle  time.Duration // of a session, from when it was last seen
	Session      time.Duration // of a session, from its start
	Ticket       time.Duration // of a consent screen
	RefreshGrace time.Duration // during which a repeated refresh gets the same pair
}

// DefaultLifetimes returns the lifetimes in docs/internals/decisions.md.
func DefaultLifetimes() Lifetimes {
	return Lifetimes{
		AccessToken:  time.Hour,
		RefreshToken: 14 * 24 * time.Hour,
		Family:       365 * 24 * time.Hour,
		Code:         time.Minute,
		SessionIdle:  12 * time.Hour,
		Session:      7 * 24 * time.Hour,
		Ticket:       30 * time.Minute,
		RefreshGrace: 30 * time.Second,
	}
}

// codeLifetimeMax is the maximum that RFC 6749 §4.1.2 recommends.
const codeLifetimeMax = 10 * time.Minute

// Options configure a Store.
type Options struct {
	Now       Now
	Key       secret.Key
	Hasher    *secret.Hasher
	Random    secret.Source // for tokens and ids; nil means the system's
	Lifetimes Lifetimes
	Log       *slog.Logger
	// CardGuard says what to do with card numbers and secrets in resources and events.
	// The default is to refuse them.
	CardGuard eventlog.CardGuard
	// OpenKinds lets resources of the specification's four kinds be any object.
	OpenKinds bool
	// Fixtures allows secrets, passwords and redirect URIs as a test chose them: dev's
	// store, which keeps nothing. Without it a store that has any is not opened.
	Fixtures bool
	// StrictTypes refuses event types that look misspelled.
	StrictTypes bool
	// Rotations is the burst of refreshes allowed per family, after which one is allowed
	// every [Lifetimes.RotationEvery]; 0 means 100,000.
	Rotations int
	// ClientGrants is the burst of grants allowed to a client for itself, and for each user,
	// after which one is allowed every [ClientGrantEvery]; 0 means 100,000.
	ClientGrants int
	// Clients is how many clients there may be; 0 means 100,000.
	Clients int
	// AccountWrites is how many bytes an account may write in an hour, and as many again by
	// sign-ins and refreshes; 0 means no bound. See [record.WritesDefault].
	AccountWrites int64
	// SecondFactor says who needs a second factor.
	SecondFactor SecondFactor
	// SegmentEvents is the number of events in a segment of a log; 0 means 200,000.
	SegmentEvents uint64
}

// Store is safe for concurrent use.
type Store struct {
	Events     *eventlog.Log
	Webhooks   *webhook.Webhooks
	ring       *stats.Ring
	db         kv.DB
	isShared   bool // with other processes
	recent     *recent
	decoded    decodedClients
	now        Now
	key        secret.Key
	random     secret.Source
	fixtures   bool
	clientsMax uint64
	hasher     *secret.Hasher
	log        *slog.Logger
	instance   secret.ID
	epoch      string
	lastUsed   lastUsed
	rotations  record.Allowance[secret.ID]
	grants     record.Allowance[granted]
	passwords  record.Allowance[secret.ID]
	writes     record.Budget // what accounts change
	tokens     record.Budget // what their sign-ins, grants and refreshes write
	overdrawn  atomic.Uint64 // updates that a budget refused
	audits     auditQueue
	// onHappening is set once, by the server.
	onHappening atomic.Pointer[func(Happening)]
	origins     origins
	backingUp   sync.Mutex
	exporting   sync.Mutex

	policy        atomic.Pointer[Policy]
	knownBrowsers knownBrowsers
}

// formatVersion is the version of the key and record layout. Stores and backups with
// another version are rejected.
const formatVersion = 1

// formatSince is the first release that reads formatVersion. A store has it, so that older
// releases can name the one that is needed.
const formatSince = "1.0.0"

const (
	metaStore  = "store" // name of the store's own record; every store has one
	metaRecord = 2
	// metaRecordBefore was in stores before format 1 was settled. Their other records had
	// several versions, which nothing reads now: their format is 0.
	metaRecordBefore = 1
)

// FormatError means that the store has a format that this version of tollhouse does
// not read.
type FormatError struct {
	Found uint64
	Needs string // a release that reads it, or "" if it does not say
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("the store has the unknown format %d; this tollhouse reads format %d", e.Found, formatVersion)
}

// Hint returns the next step.
func (e *FormatError) Hint() string {
	if e.Found < formatVersion {
		return "use the tollhouse that wrote it"
	}
	return backup.HintOf(e.Needs)
}

// Open returns a Store on db. An empty db gets a format and an instance id. Errors:
// *FormatError, which leaves the store unchanged, *InvalidError for a lifetime, the
// engine's, kv.ErrCorrupt also when the format is missing of a db that is not empty.
func Open(ctx context.Context, db kv.DB, o Options) (*Store, error) {
	if err := o.Lifetimes.Check(); err != nil {
		return nil, err
	}
	s := &Store{db: db, now: o.Now, key: o.Key, hasher: o.Hasher, log: o.Log, random: o.Random, fixtures: o.Fixtures, clientsMax: uint64(cmp.Or(o.Clients, clientsMax)), decoded: newDecodedClients()}
	if _, s.isShared = db.(kv.Caller); s.isShared {
		s.recent = newRecent()
	}
	s.ring = stats.NewRing(db, s.Now, o.Log)
	s.lastUsed.init()
	s.policy.Store(&Policy{Lifetimes: o.Lifetimes, SecondFactor: o.SecondFactor, CardGuard: o.CardGuard, OpenKinds: o.OpenKinds})
	s.knownBrowsers.init()
	s.rotations.Init(orDefault(o.Rotations), o.Lifetimes.RotationEvery(), false)
	s.grants.Init(orDefault(o.ClientGrants), ClientGrantEvery, false)
	s.passwords.Init(passwordsAtOnce, PasswordEvery, false)
	s.initBudgets(o.AccountWrites)
	// Drawn for a new store only: one that is opened again draws what it drew before.
	fresh := sync.OnceValue(func() secret.ID { return secret.NewID(s.random) })
	var m meta
	err := db.Update(ctx, func(tx kv.Txn) error {
		m, s.epoch = meta{format: formatVersion}, ""
		value, err := tx.Get(record.MetaKey(metaStore))
		if err == nil {
			if m, err = decodeMeta(value); err != nil || m.format != formatVersion {
				return err
			}
			if s.epoch, err = readEpoch(tx); err != nil {
				return err
			}
			return s.refuseFixtures(tx)
		}
		if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		for range tx.Scan(kv.Range{KeysOnly: true, Limit: 1}) {
			return &kv.CorruptError{Kind: record.TagMeta, Reason: "it is missing, and other records are there"}
		}
		m.instance, m.needs = fresh(), formatSince
		return tx.Set(record.MetaKey(metaStore), m.encode(), time.Time{})
	})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if m.format != formatVersion {
		return nil, &FormatError{Found: m.format, Needs: m.needs}
	}
	s.instance = m.instance
	s.Events, err = eventlog.Open(ctx, db, eventlog.Options{Now: s.Now, Random: o.Random, Log: o.Log, CardGuard: o.CardGuard, Rules: snapshot.Rules{OpenKinds: o.OpenKinds}, StrictTypes: o.StrictTypes, EnsureAccount: s.ensureAccount, IsErasing: isErasing, SegmentEvents: o.SegmentEvents, Budget: &s.writes})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s.Webhooks = s.openWebhooks(db, o)
	return s, nil
}

// meta is the store's own record. Its fields never change, so that every release can
// read them; those of a later format may be followed by others.
type meta struct {
	format   uint64
	instance secret.ID
	needs    string // the first release that reads the format; stores before 1.0.0 have none
}

func (m meta) encode() []byte {
	return record.NewEncoder(metaRecord).Uint(m.format).ID(m.instance).Str(m.needs).B
}

func decodeMeta(value []byte) (m meta, err error) {
	if len(value) > 0 && value[0] == metaRecordBefore {
		return meta{}, nil
	}
	d := record.NewDecoder("meta", metaRecord, value)
	m.format, m.instance = d.Uint(), d.ID()
	if len(d.B) > 0 {
		m.needs = d.Str()
	}
	if m.format > formatVersion {
		return m, d.Err
	}
	return m, d.Done()
}

// nameInstance returns the visible form of an instance id.
func nameInstance(id secret.ID) string { return hex.EncodeToString(id[:]) }

// Check returns the *InvalidError for a lifetime that is not allowed, or nil.
func (l Lifetimes) Check() error {
	if l.Code > codeLifetimeMax {
		return record.Invalid("code-ttl", "give 10m or less", "the code lifetime %s exceeds the %s that RFC 6749 §4.1.2 recommends", l.Code, codeLifetimeMax)
	}
	if l.RefreshGrace > l.AccessToken {
		return record.Invalid("refresh-grace", "give a shorter --refresh-grace", "the refresh grace period (%s) is longer than an access token's lifetime (%s)", l.RefreshGrace, l.AccessToken)
	}
	for _, d := range []time.Duration{l.AccessToken, l.RefreshToken, l.Family, l.Code, l.SessionIdle, l.Session, l.Ticket} {
		if d < time.Second {
			return record.Invalid("lifetime", "give one second or more", "a lifetime of %s is too short", d)
		}
	}
	return nil
}

// InstanceID identifies this store. It is not a secret.
func (s *Store) InstanceID() string { return nameInstance(s.instance) }

// Policy is what may be changed while the store is in use. The fields are those of [Options].
type Policy struct {
	Lifetimes    Lifetimes
	SecondFactor SecondFactor
	CardGuard    eventlog.CardGuard
	OpenKinds    bool
}

// SetPolicy replaces the policy for what begins from now on. Tokens and codes keep the
// lifetimes with which they were issued. Errors: *InvalidError for a lifetime.
func (s *Store) SetPolicy(p Policy) error {
	if err := p.Lifetimes.Check(); err != nil {
		return err
	}
	s.policy.Store(&p)
	s.rotations.SetEvery(p.Lifetimes.RotationEvery())
	s.Events.SetPolicy(p.CardGuard, snapshot.Rules{OpenKinds: p.OpenKinds})
	return nil
}

// Lifetimes returns the store's lifetimes.
func (s *Store) Lifetimes() Lifetimes { return s.policy.Load().Lifetimes }

// Now returns the store's time in whole milliseconds, UTC.
func (s *Store) Now() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// IsCrowded reports whether so many changes wait that another would only add to the time of each.
func (s *Store) IsCrowded() bool {
	engine, ok := s.db.(kv.Crowder)
	return ok && engine.Crowded()
}

// Yielding returns a context for changes that are refused before the engine's queue is full.
func Yielding(ctx context.Context) context.Context { return kv.Yielding(ctx) }

// Check reads one record, to see whether the store works.
func (s *Store) Check(ctx context.Context) error {
	return s.db.View(ctx, func(r kv.Reader) error {
		_, err := r.Get(record.MetaKey(metaStore))
		return err
	})
}
