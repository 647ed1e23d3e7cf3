package webhook

import (
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Order says whether an endpoint gets its events in the order of the log.
type Order string

const (
	Strict Order = "strict" // one request in flight, nothing before its predecessor
	None   Order = "none"   // several in flight; an event that fails is set aside
)

// Cause says who disabled an endpoint.
type Cause string

const (
	ByAPI      Cause = "api"
	ByOperator Cause = "operator"
	ByReceiver Cause = "receiver"
	BySystem   Cause = "system"
)

// Reason says why an endpoint was disabled.
type Reason string

const (
	Asked      Reason = "asked"
	Gone       Reason = "gone"
	Failing    Reason = "failing"
	SecretLost Reason = "secret_lost"
	// AuthorizationEnded means that the authorization of its owner was revoked.
	AuthorizationEnded Reason = "authorization_ended"
	// ClientEnded means that its client may no longer have events pushed.
	ClientEnded Reason = "client_ended"
	// AccountDisabled means that its account is disabled. It is not recorded: the endpoint
	// continues at its cursor when the account is enabled.
	AccountDisabled Reason = "account_disabled"
)

// Disabled says that an endpoint is disabled. The zero Disabled is that of an enabled
// one.
type Disabled struct {
	By     Cause
	Reason Reason
	At     time.Time
}

// Secret is a signing secret of an endpoint. The text is sealed; see [Webhooks.Open].
type Secret struct {
	CreatedAt time.Time
	ExpiresAt time.Time // zero for the newest
	sealed    string
}

// Gap is a stretch of the log that retention removed before the endpoint was sent it.
type Gap struct {
	After, Oldest record.Position
	At            time.Time
	// Pending is set until an event after the gap is accepted. Until then each attempt
	// carries the header tollhouse-gap.
	Pending bool
}

// IsZero reports whether there was no gap.
func (g Gap) IsZero() bool { return g.At.IsZero() }

// Settle ends a pending gap if x was accepted after it.
func (g *Gap) Settle(x Delivery) {
	if x.State == Delivered && x.Position.Compare(g.Oldest) >= 0 {
		g.Pending = false
	}
}

// Trouble is what has failed since an event was last accepted. The zero Trouble is that
// of an endpoint that works.
type Trouble struct {
	Since    time.Time     // of the first failed attempt
	For      time.Duration // of the server's running time
	Attempts int           // that failed
}

// Attempt is the last attempt of an endpoint.
type Attempt struct {
	At     time.Time
	Status int    // 0 if there was no answer
	Error  string // "" if it was accepted
}

// Endpoint is a receiver of an account's events, with what the sender knows about it.
type Endpoint struct {
	ID          string
	Account     string // eventlog.AllAccounts for those of all
	URL         string // as target.ParseURL returned it
	Description string
	Types       []string // patterns
	Order       Order
	Disabled    Disabled
	Cursor      record.Position // everything up to here is settled
	Secrets     []Secret        // newest first
	Owner                       // to which it is bound
	Revision    uint64
	CreatedAt   time.Time

	Head         *Delivery // the event that blocks a strict endpoint, or nil
	Trouble      Trouble
	Last         Attempt
	Gap          Gap // the last one
	Parked, Dead int // events set aside; skipped ones count as dead

	// Not in the record.
	Held    bool      // the instance sends nothing
	Stopped time.Time // since when its account is disabled, or zero
	Behind  bool      // events wait behind the cursor
	Changes uint64    // those of the [Instance] when Load or Settle returned this

	key   secret.ID
	born  record.Position // of its own created event, which it is not sent
	turn  uint64          // rises when the state is changed by hand, and by aMove or aRenewal for some changes
	lines uint64          // deliveries written so far
	atNow bool            // the cursor moves to the event of this change; not in the record
}

const (
	// aMove is more than a turn rises while nobody moves the cursor.
	aMove = 1 << 32
	// aRenewal is more than a turn rises while nobody renews the endpoint. What is carried
	// over after so many changes costs a needless renewal, or the repetition of the accepted
	// events that were not written yet.
	aRenewal = 1 << 16
)

// Enabled reports whether events may be sent to the endpoint, unless the instance is
// held or the account is disabled.
func (e *Endpoint) Enabled() bool { return e.Disabled.At.IsZero() }

// IsSendable reports whether events may be sent to the endpoint now.
func (e *Endpoint) IsSendable() bool { return e.Enabled() && e.Stopped.IsZero() && !e.Held }

// Why returns why the endpoint is disabled, itself or with its account; zero if it is not.
func (e *Endpoint) Why() Disabled {
	if e.Enabled() && !e.Stopped.IsZero() {
		return Disabled{By: BySystem, Reason: AccountDisabled, At: e.Stopped}
	}
	return e.Disabled
}

// Turn rises whenever a caller changed what the sender relies on: the cursor, the state,
// the URL, the types, or the events set aside. Settle with an older one settles only what was accepted.
func (e *Endpoint) Turn() uint64 { return e.turn }

// Renewal rises whenever what failed before says nothing about the next attempt: with a new
// URL or secret, when the endpoint is enabled, and when its receiver accepted a test. A pause
// of an older renewal is over.
func (e *Endpoint) Renewal() uint64 { return e.turn / aRenewal }

// renew ends every pause of the endpoint. keep is for a receiver that is still the same:
// how often and how long it refused the head keeps counting, or a test now and then would
// keep the head from being parked.
func (e *Endpoint) renew(keep bool) {
	e.turn += aRenewal
	e.Trouble = Trouble{}
	if e.Head == nil {
		return
	}
	was := *e.Head
	e.Head.restart()
	if keep {
		e.Head.Refused, e.Head.Blocked, e.Head.Probed = was.Refused, was.Blocked, was.Probed
	}
}

// waits reports whether there is anything that a renewal would make due.
func (e *Endpoint) waits() bool {
	return e.Head != nil || e.Trouble.Attempts > 0 || e.Parked+e.Dead > 0
}

// current returns an event that is set aside as it is since the last renewal.
func (e *Endpoint) current(x Delivery) Delivery {
	if x.State == Parked && x.turn/aRenewal < e.Renewal() {
		x.restart()
	}
	return x
}

// Health is the state of an endpoint in one word.
type Health string

const (
	Idle           Health = "idle"
	OK             Health = "ok"
	HealthFailing  Health = "failing"
	HealthHeld     Health = "held"
	HealthDisabled Health = "disabled"
)

// Health returns the state of the endpoint in one word.
func (e *Endpoint) Health() Health {
	switch {
	case !e.Why().At.IsZero():
		return HealthDisabled
	case e.Held:
		return HealthHeld
	case e.Trouble.Attempts > 0, e.IsFull():
		return HealthFailing
	case e.Last.At.IsZero():
		return Idle
	}
	return OK
}

// IsFull reports whether nothing more can be set aside.
func (e *Endpoint) IsFull() bool { return e.Parked+e.Dead >= SetMax }

// GapText returns the value of the header tollhouse-gap.
func (e *Endpoint) GapText() string { return e.text(e.Gap.After) + ".." + e.text(e.Gap.Oldest) }

// text returns a position of the endpoint's log as callers see it.
func (e *Endpoint) text(p record.Position) string { return eventlog.PositionText(e.Account, p) }

// ofAll reports whether the endpoint gets the events of all accounts. It has no log: its
// positions are those of the feed, and its changes cause no events.
func (e *Endpoint) ofAll() bool { return e.Account == eventlog.AllAccounts }

const endpointRecord = 1

func endpointKey(account string, id secret.ID) record.Key {
	return record.WebhooksKey(record.TagWebhook, account).ID(id)
}

func read(r kv.Reader, account string, id secret.ID) (Endpoint, error) {
	return record.Read(r, endpointKey(account, id), id, func(id secret.ID, v []byte) (Endpoint, error) { return decodeEndpoint(account, id, v) })
}

func write(tx kv.Txn, e Endpoint) error {
	return tx.Set(endpointKey(e.Account, e.key), encodeEndpoint(e), time.Time{})
}

func encodeEndpoint(x Endpoint) []byte {
	e := record.NewEncoder(endpointRecord).Str(x.URL).Str(x.Description).Strs(x.Types).Bool(x.Order == None)
	e.Time(x.Disabled.At)
	if !x.Enabled() {
		e.Str(string(x.Disabled.By)).Str(string(x.Disabled.Reason))
	}
	e.Position(x.Cursor).Position(x.born).Uint(uint64(len(x.Secrets)))
	for _, s := range x.Secrets {
		e.Str(s.sealed).Time(s.CreatedAt).Time(s.ExpiresAt)
	}
	e.Str(x.Client).Str(x.User).ID(x.Family).Bool(x.OneAccount).Uint(x.ClientGeneration).Uint(x.UserGeneration).Uint(x.Revision).Time(x.CreatedAt).Uint(x.turn).Uint(x.lines).Uint(uint64(x.Parked)).Uint(uint64(x.Dead))
	e.Time(x.Trouble.Since).Uint(millis(x.Trouble.For)).Uint(uint64(x.Trouble.Attempts))
	e.Time(x.Last.At).Uint(uint64(x.Last.Status)).Str(x.Last.Error)
	e.Bool(x.Head != nil)
	if x.Head != nil {
		encodeDelivery(e, *x.Head)
	}
	e.Time(x.Gap.At)
	if !x.Gap.IsZero() {
		e.Position(x.Gap.After).Position(x.Gap.Oldest).Bool(x.Gap.Pending)
	}
	return e.B
}

func decodeEndpoint(account string, id secret.ID, v []byte) (Endpoint, error) {
	d := record.NewDecoder("webhook endpoint", endpointRecord, v)
	x := Endpoint{ID: formatID(id), key: id, Account: account, URL: d.Str(), Description: d.Str(), Types: d.Strs(), Order: Strict}
	if d.Bool() {
		x.Order = None
	}
	if x.Disabled.At = d.Time(); !x.Enabled() {
		x.Disabled.By, x.Disabled.Reason = Cause(d.Str()), Reason(d.Str())
	}
	x.Cursor, x.born = d.Position(), d.Position()
	secrets := d.Uint()
	if secrets > SecretsMax {
		d.Fail("has too many secrets")
	}
	for range min(secrets, SecretsMax) {
		x.Secrets = append(x.Secrets, Secret{sealed: d.Str(), CreatedAt: d.Time(), ExpiresAt: d.Time()})
	}
	x.Owner = Owner{Client: d.Str(), User: d.Str(), Family: d.ID(), OneAccount: d.Bool(), ClientGeneration: d.Uint(), UserGeneration: d.Uint()}
	x.Revision, x.CreatedAt = d.Uint(), d.Time()
	x.turn, x.lines, x.Parked, x.Dead = d.Uint(), d.Uint(), int(d.Uint()), int(d.Uint())
	x.Trouble = Trouble{Since: d.Time(), For: duration(d.Uint()), Attempts: int(d.Uint())}
	x.Last = Attempt{At: d.Time(), Status: int(d.Uint()), Error: d.Str()}
	if d.Bool() {
		head := decodeDelivery(&d)
		x.Head = &head
	}
	if x.Gap.At = d.Time(); !x.Gap.IsZero() {
		x.Gap.After, x.Gap.Oldest, x.Gap.Pending = d.Position(), d.Position(), d.Bool()
	}
	return x, d.Done()
}

func millis(d time.Duration) uint64 { return uint64(max(d.Milliseconds(), 0)) }

func duration(millis uint64) time.Duration { return time.Duration(millis) * time.Millisecond }
