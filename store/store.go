// Package store keeps the facts that tollhouse is about and the rules that hold
// among them: clients, users, accounts, sessions, codes, families of tokens,
// events and resources. One file holds one noun, and one method is one
// transaction: what must be true together is read and written together, or not
// at all.
//
// Records live in an ordered key-value engine behind package kv. Their keys are
// built in keys.go, their bytes in codec.go. An account's name leads the key of
// everything that it owns, so that no request can name what is another's.
//
// The store knows no HTTP and no engine. It is told the time ([Options.Now])
// and compares every expiry with it; nothing here reads the wall clock.
package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Now tells the time. It is injected, so that tests and `dev --clock` own it.
type Now func() time.Time

// Lifetimes says how long things live. See [DefaultLifetimes].
type Lifetimes struct {
	AccessToken  time.Duration // of an access token
	RefreshToken time.Duration // of a refresh token since it was issued
	Family       time.Duration // of all tokens of one authorization, since it was given
	Code         time.Duration // of an authorization code
	SessionIdle  time.Duration // of a sign-in since it was last seen
	Session      time.Duration // of a sign-in since it began
	Ticket       time.Duration // of a consent screen
	RefreshGrace time.Duration // in which a repeated refresh gets the identical pair
}

// DefaultLifetimes are those of docs/decisions.md.
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

// codeLifetimeMax is the recommended bound of RFC 6749 §4.1.2.
const codeLifetimeMax = 10 * time.Minute

// Options configure a Store.
type Options struct {
	Now       Now
	Key       secret.Key
	Hasher    *secret.Hasher
	Lifetimes Lifetimes
	Log       *slog.Logger
	// UsersReady, when not nil, is closed once the first users stand; checking
	// a password waits for it. Only dev sets it: it hashes its demo password
	// after it has said that it is ready.
	UsersReady <-chan struct{}
	// CardGuard says what happens to card numbers and secrets in resources and
	// events; they are refused unless it says otherwise.
	CardGuard CardGuard
}

// Store keeps the facts. Its methods may be called from many goroutines.
type Store struct {
	db         kv.DB
	now        Now
	key        secret.Key
	hasher     *secret.Hasher
	lives      Lifetimes
	log        *slog.Logger
	usersReady <-chan struct{}
	cardGuard  CardGuard
	instance   secret.ID
	marks      marks
	audits     auditQueue
	origins    origins
	watches    watchLog
	types      recentTypes
	retention  retention
	backingUp  sync.Mutex
}

// schemaVersion is the layout of keys and records that this code reads and
// writes. A store of a newer one is refused, and one of an older one is migrated
// first (migrate.go).
const schemaVersion = 3

const metaStore = "store" // names the record of the store itself; every store has one

// SchemaError says that the store was written by a newer tollhouse.
type SchemaError struct{ Found, Known uint64 }

func (e *SchemaError) Error() string {
	return fmt.Sprintf("the store has schema %d and this tollhouse knows up to %d", e.Found, e.Known)
}

// OlderError says that the store was written by an older tollhouse, and has to be
// migrated: backed up with [BackupOlder], and built anew by a Load of that.
type OlderError struct{ Found, Known uint64 }

func (e *OlderError) Error() string {
	return fmt.Sprintf("the store has schema %d, and this tollhouse writes %d", e.Found, e.Known)
}

// Open returns a Store over db. A new store is given its schema version and its
// instance id. Errors: *SchemaError, *OlderError, *InvalidError for a lifetime,
// the engine's.
func Open(ctx context.Context, db kv.DB, o Options) (*Store, error) {
	if err := o.Lifetimes.check(); err != nil {
		return nil, err
	}
	s := &Store{db: db, now: o.Now, key: o.Key, hasher: o.Hasher, lives: o.Lifetimes, log: o.Log, usersReady: o.UsersReady, cardGuard: o.CardGuard}
	s.marks.init()
	fresh := secret.NewID()
	var found uint64
	err := db.Update(ctx, func(tx kv.Txn) error {
		found, s.instance = schemaVersion, fresh
		value, err := tx.Get(metaKey(metaStore))
		if err == nil {
			found, s.instance, err = decodeMeta(value)
			return err
		}
		if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		return tx.Set(metaKey(metaStore), encodeMeta(schemaVersion, fresh), time.Time{})
	})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	if found > schemaVersion {
		return nil, &SchemaError{Found: found, Known: schemaVersion}
	}
	if found < schemaVersion {
		return nil, &OlderError{Found: found, Known: schemaVersion}
	}
	if err := s.recallRetention(ctx); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return s, nil
}

func encodeMeta(schema uint64, instance secret.ID) []byte {
	e := newEncoder(1)
	e.uint(schema)
	e.id(instance)
	return e.b
}

func decodeMeta(value []byte) (schema uint64, instance secret.ID, err error) {
	d := newDecoder("meta", 1, value)
	schema, instance = d.uint(), d.id()
	return schema, instance, d.done()
}

// nameInstance is an instance id as people see it.
func nameInstance(id secret.ID) string { return hex.EncodeToString(id[:]) }

func (l Lifetimes) check() error {
	if l.Code > codeLifetimeMax {
		return invalid("code-ttl", "give 10m or less", "a code lives %s, longer than the %s that RFC 6749 §4.1.2 recommends at most", l.Code, codeLifetimeMax)
	}
	if l.RefreshGrace > l.AccessToken {
		return invalid("refresh-grace", "give a shorter --refresh-grace", "the grace of a repeated refresh (%s) is longer than an access token lives (%s)", l.RefreshGrace, l.AccessToken)
	}
	for _, d := range []time.Duration{l.AccessToken, l.RefreshToken, l.Family, l.Code, l.SessionIdle, l.Session, l.Ticket} {
		if d < time.Second {
			return invalid("lifetime", "give one second or more", "a lifetime of %s is too short to be used", d)
		}
	}
	return nil
}

// InstanceID names this store among others; it is no secret.
func (s *Store) InstanceID() string { return nameInstance(s.instance) }

// Lifetimes returns what the store was opened with.
func (s *Store) Lifetimes() Lifetimes { return s.lives }

// Now returns the time by the store's clock, in whole milliseconds, UTC.
func (s *Store) Now() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Check reads one record, to tell whether the store answers.
func (s *Store) Check(ctx context.Context) error {
	return s.db.View(ctx, func(r kv.Reader) error {
		_, err := r.Get(metaKey(metaStore))
		return err
	})
}

// found turns the engine's word for "absent" into the store's.
func found(err error) error {
	if errors.Is(err, kv.ErrNotFound) {
		return ErrNotFound
	}
	return err
}

// isAbsent reports whether err says that a record is not there.
func isAbsent(err error) bool { return errors.Is(err, kv.ErrNotFound) || errors.Is(err, ErrNotFound) }

const deleteBatchMax = 400 // keys removed in one Update

// deleteAll removes every key of the ranges, in batches: a clean-up behind a
// change that already took effect, not a change by itself. Each batch begins
// behind the one before: an engine goes on passing over what was deleted, and
// to begin anew each time would take the square of the time.
func (s *Store) deleteAll(ctx context.Context, ranges ...kv.Range) error {
	for _, r := range ranges {
		r.KeysOnly, r.Limit = true, deleteBatchMax
		for {
			var keys [][]byte
			err := s.db.View(ctx, func(rd kv.Reader) error {
				for k := range rd.Scan(r) {
					keys = append(keys, append([]byte(nil), k...))
				}
				return nil
			})
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				break
			}
			if err := s.db.Update(ctx, func(tx kv.Txn) error { return deleteKeys(tx, keys...) }); err != nil {
				return err
			}
			r.Lo = append(keys[len(keys)-1], 0)
		}
	}
	return nil
}

func deleteKeys(tx kv.Txn, keys ...[]byte) error {
	for _, k := range keys {
		if err := tx.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
