// Package webhook keeps the endpoints to which an account's events are pushed.
//
// An endpoint is a cursor in the log of its account, and a small set of events that were
// set aside; there is no queue. So an endpoint that is disabled, fails or is forgotten
// costs nothing and loses nothing. The log itself (package eventlog) holds the events.
//
// The package has no network. The API and the commands create and change endpoints; the
// sender ([Webhooks.Start], [Webhooks.Next], [Webhooks.Settle]) reads what is due and
// stores the result. Every change of an endpoint is one transaction with its event
// and its audit line. A sender's write holds only if the endpoint is as the sender read
// it, so servers that share a database never undo each other's work.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// The limits of endpoints.
const (
	AccountMax     = 50     // endpoints of an account
	InstanceMax    = 10_000 // endpoints of all accounts
	TypesMax       = 50
	DescriptionMax = 256 // characters
	SecretsMax     = 3   // live secrets of an endpoint
	SetMax         = 10_000
	DeliveriesMax  = 1_000 // delivered events listed for an endpoint
	RetriedMax     = 10_000

	OverlapMax     = 7 * 24 * time.Hour
	OverlapDefault = 24 * time.Hour
)

// Errors besides those of package record, *record.InvalidError and
// *eventlog.CursorError.
var (
	// ErrFull means that an endpoint has SetMax events set aside.
	ErrFull = errors.New("too many events are set aside")
	// ErrSecretLost means that the secrets were sealed with another server key.
	ErrSecretLost = errors.New("its secrets were sealed with another server key")
	// ErrNoHead means that no event blocks the endpoint, or not the one that was named.
	ErrNoHead = errors.New("no event is failing, or another one")
	// ErrOperatorOnly means that only an operator may enable the endpoint: an operator
	// disabled it, or created it and no token disabled it.
	ErrOperatorOnly = errors.New("only an operator may enable the endpoint")
	// ErrEnabled means that an endpoint is enabled already.
	ErrEnabled = errors.New("the endpoint is enabled already")
	// ErrTooMany means that a retry covers more than RetriedMax events.
	ErrTooMany = errors.New("too many events to retry")
)

// LimitError means that the maximum number of endpoints is reached.
type LimitError struct {
	Instance bool // the limit of all accounts, otherwise that of the account
	Max      int
}

func (e *LimitError) Error() string {
	if e.Instance {
		return fmt.Sprintf("there are %d webhook endpoints, the most there may be", e.Max)
	}
	return fmt.Sprintf("the account has %d webhook endpoints, the most it may have", e.Max)
}

// ExistsError means that another endpoint of the account has the URL.
type ExistsError struct{ ID string }

func (e *ExistsError) Error() string { return "the endpoint " + e.ID + " has this URL" }

// Is makes errors.Is(err, record.ErrExists) true.
func (e *ExistsError) Is(target error) bool { return target == record.ErrExists }

// SecretsError means that an endpoint has SecretsMax live secrets.
type SecretsError struct{ Ends time.Time } // when the next one expires

func (e *SecretsError) Error() string {
	return fmt.Sprintf("%d secrets are live until %s", SecretsMax, e.Ends.Format(time.RFC3339))
}

// Is makes errors.Is(err, record.ErrConflict) true.
func (e *SecretsError) Is(target error) bool { return target == record.ErrConflict }

// By says who calls, and what they may reach.
type By struct {
	// Account is the account of the token, the only one whose endpoints are found. "" is
	// an operator, who finds all.
	Account string
	Owner          // the authorization of the token; zero for an operator
	Name    string // of the user or the client, the source of events
	// Location is that of the events; "" is api.
	Location string
	// Platform is a platform client, which acts for the account. What it writes counts for no
	// account.
	Platform bool
	// Live returns why the token may not make the change any more, record.ErrRevoked if it is no
	// longer valid; nil if there is none. It is called within each change: otherwise one that waits
	// for its turn while the token becomes invalid would leave a push behind.
	Live func(r kv.Reader) error

	RequestID, Address string // for the audit log, as the actor is

	OperatorID             string // at the desk
	ActorClient, ActorName string // a platform client
}

func (by By) hasToken() bool { return !by.IsOperator() }

// ending returns the class of what by ends.
func (by By) ending() kv.Class {
	if by.hasToken() {
		return kv.Ending
	}
	return kv.Ruling
}

// update is the engine's Update for by, whose token must be valid still: what a token changes counts
// for its account.
func (w *Webhooks) update(ctx context.Context, by By, fn func(tx kv.Txn) error) error {
	charged := by.Account
	if by.Platform {
		charged = ""
	}
	return w.Budget.Update(ctx, w.db, charged, func(tx kv.Txn) error {
		if err := by.mustLive(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

func (by By) mustLive(r kv.Reader) error {
	if by.Live == nil {
		return nil
	}
	return by.Live(r)
}

// System is the caller of what the server does on its own.
var System = By{}

// Options configure Webhooks.
type Options struct {
	Log    *eventlog.Log
	Now    func() time.Time // in whole milliseconds, UTC
	Random secret.Source    // nil means the system's
	Key    secret.Key       // seals the secrets
	Budget *record.Budget   // bounds what accounts change; nil bounds nothing
	// Audit appends a line to the audit log within tx. tail was drawn before the
	// transaction.
	Audit func(tx kv.Txn, by By, account, reason string, tail [8]byte) error
	// Ended returns why the endpoints that an authorization owns in an account may no longer
	// be sent to, or "" if they may.
	Ended func(r kv.Reader, account string, o Owner) (Reason, error)
	// Stopped returns since when an account is disabled, or zero.
	Stopped func(r kv.Reader, account string) (time.Time, error)
}

// Webhooks holds the endpoints of all accounts. It is safe for concurrent use.
type Webhooks struct {
	Options
	db    kv.DB
	fence atomic.Uint64 // of Start

	mu       sync.Mutex
	onChange func(id string)
	disabled map[Cause]uint64
	gaps     uint64
}

// New returns the Webhooks in db.
func New(db kv.DB, o Options) *Webhooks {
	return &Webhooks{Options: o, db: db, disabled: map[Cause]uint64{}}
}

// Counts is what has happened to endpoints since the store was opened, by this process.
type Counts struct {
	Disabled map[Cause]uint64
	Gaps     uint64
}

// Counts returns what has happened to endpoints.
func (w *Webhooks) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Counts{Disabled: maps.Clone(w.disabled), Gaps: w.gaps}
}

// committed follows a change whose event was recorded.
func (w *Webhooks) committed(e *Endpoint, action string) {
	w.recorded(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch action {
	case "disabled":
		w.disabled[e.Disabled.By]++
	case "gap":
		w.gaps++
	}
}

// recorded wakes the readers of the account's log after an event about the endpoint.
func (w *Webhooks) recorded(e *Endpoint) {
	if !e.ofAll() {
		w.Log.Recorded(e.Account)
	}
}

// OnChange has fn called after every change of an endpoint by this process, except by
// Settle and PassGap: with its id, or with "" when the instance was held or resumed. It is
// called after the commit, and must not block. Another process on the same database
// raises [Instance].Changes only.
func (w *Webhooks) OnChange(fn func(id string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onChange = fn
}

func (w *Webhooks) changed(id string) {
	w.mu.Lock()
	fn := w.onChange
	w.mu.Unlock()
	if fn != nil {
		fn(id)
	}
}

const idPrefix = "wep_"

// formatID returns the visible form of an endpoint's id.
func formatID(id secret.ID) string { return string(secret.AppendCrockford([]byte(idPrefix), id)) }

func parseID(text string) (secret.ID, error) {
	digits, ok := strings.CutPrefix(text, idPrefix)
	id, valid := secret.ParseCrockford(digits)
	if !ok || !valid {
		return secret.ID{}, record.ErrNotFound
	}
	return id, nil
}

// drawn are random bits for one transaction, whose closure may run again.
type drawn struct{ event, audit [8]byte }

func (w *Webhooks) draw() drawn {
	return drawn{event: secret.NewTail(w.Random), audit: secret.NewTail(w.Random)}
}

// find returns the endpoint with that id. Errors: ErrNotFound, also for an endpoint that
// the caller may not reach.
func find(r kv.Reader, by By, text string) (Endpoint, error) {
	id, err := parseID(text)
	if err != nil {
		return Endpoint{}, err
	}
	kv.Prefetch(r, [][]byte{record.WebhookIDKey(id), record.MetaKey(MetaName)})
	account, err := r.Get(record.WebhookIDKey(id))
	if err != nil {
		return Endpoint{}, record.Found(err)
	}
	if by.Account != "" && by.Account != string(account) {
		return Endpoint{}, record.ErrNotFound
	}
	kv.Prefetch(r, [][]byte{endpointKey(string(account), id), record.AccountKey(string(account)), record.EventHeadKey(string(account))})
	return read(r, string(account), id)
}

// Find returns the endpoint with that id. Errors: ErrNotFound.
func (w *Webhooks) Find(ctx context.Context, by By, id string) (e Endpoint, err error) {
	err = w.db.View(ctx, func(r kv.Reader) error {
		if e, err = find(r, by, id); err != nil {
			return err
		}
		return w.complete(r, &e, eventlog.SearchedMax)
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("find webhook endpoint: %w", err)
	}
	return e, nil
}

// List returns up to limit endpoints with ids after the given one, by id: those of an
// account, or with "" of all. Errors: ErrNotFound if the caller may not reach the
// account.
func (w *Webhooks) List(ctx context.Context, by By, account, after string, limit int) (list []Endpoint, err error) {
	if account == "" {
		account = by.Account
	}
	if by.Account != "" && by.Account != account {
		return nil, fmt.Errorf("list webhook endpoints: %w", record.ErrNotFound)
	}
	var from secret.ID
	if after != "" {
		if from, err = parseID(after); err != nil {
			return nil, record.Invalid("after", "use the id of an endpoint", "after is not the id of a webhook endpoint")
		}
	}
	err = w.db.View(ctx, func(r kv.Reader) (err error) {
		if list, err = page(r, account, from, after == "", limit); err != nil {
			return err
		}
		heads := accountKeys(list)
		for _, e := range list {
			heads = append(heads, record.EventHeadKey(e.Account))
		}
		kv.Prefetch(r, heads)
		for i := range list {
			if err := w.complete(r, &list[i], max(eventlog.SearchedMax/len(list), behindRowsMin)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list webhook endpoints: %w", err)
	}
	return list, nil
}

// page reads endpoints by id, of an account or with "" of all.
func page(r kv.Reader, account string, after secret.ID, first bool, limit int) (list []Endpoint, err error) {
	prefix := record.NewKey(record.TagWebhookID)
	if account != "" {
		prefix = record.WebhooksKey(record.TagWebhook, account)
	}
	at := prefix.From(append(prefix[:len(prefix):len(prefix)], after[:]...))
	if !first {
		at.Lo = append(at.Lo, 0)
	}
	at.Limit = limit
	var ids []secret.ID
	var keys [][]byte
	for k, v := range r.Scan(at) {
		id := secret.ID(k[len(prefix):])
		if account == "" {
			ids, keys = append(ids, id), append(keys, endpointKey(string(v), id))
			continue
		}
		e, err := decodeEndpoint(account, id, v)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	for i, v := range r.GetMany(keys) {
		owner, _ := record.CutString(keys[i][1:])
		e, err := decodeEndpoint(owner, ids[i], v)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// behindRowsMin is how many rows of the log are searched at least for what waits for an endpoint.
const behindRowsMin = 100

// complete adds what is not in an endpoint's record. An endpoint counts as behind if none of that
// many rows after its cursor is for it, and there are more.
func (w *Webhooks) complete(r kv.Reader, e *Endpoint, rows int) error {
	in, err := readInstance(r)
	if err != nil {
		return err
	}
	extent, err := eventlog.ReadExtent(r, e.Account)
	if err != nil {
		return err
	}
	if e.Stopped, err = w.Stopped(r, e.Account); err != nil {
		return err
	}
	e.Held = in.Held
	e.Secrets = live(e.Secrets, w.Now())
	if e.Behind = e.Cursor.Compare(extent.Removed) < 0; !e.Behind && e.Cursor.Compare(extent.Last) < 0 {
		e.Behind = w.Log.HasEvents(r, e.Account, e.Types, e.Cursor, e.born, rows)
	}
	return nil
}
