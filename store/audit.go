package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Audited is the kind of an audit line.
type Audited string

// The kinds of audit line.
const (
	AuditLogin        Audited = "login"
	AuditLoginRefused Audited = "login_refused"
	AuditRefused      Audited = "refused" // a client, a code or a token
	AuditGrant        Audited = "grant"
	AuditDenied       Audited = "denied" // by the user, on the consent screen
	AuditRefreshReuse Audited = "refresh_reuse"
	AuditCodeReplay   Audited = "code_replay"
	AuditRevoke       Audited = "revoke"
	AuditThrottle     Audited = "throttle"
	AuditAdmin        Audited = "admin"
	AuditWebhook      Audited = "webhook" // what became of a webhook endpoint
)

// Actor is who makes a change: a platform client, or an operator at the desk. The zero
// Actor is the machine: a command, or the server itself.
type Actor struct {
	ClientID, ClientName string // of a platform client, as it was then
	OperatorID           string // the user's Subject
}

// By says where a request came from, for the audit log.
type By struct {
	RequestID string
	Source    string // the address, or "" on the admin socket
	Browser   string // that signs in, for its session; lines of the log lack it
	Actor     Actor
}

// RequestKey is the key of a request in its context: a value with a method By.
const RequestKey = contextKey(0)

const actorKey = contextKey(1)

type contextKey int

// WithActor returns a context for what the actor does.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey, a)
}

// ByOf returns who asks for what is done with ctx. isAsked is false without a request or an
// actor: the program does it on its own, and a change has no audit line.
func ByOf(ctx context.Context) (by By, isAsked bool) {
	if r, ok := ctx.Value(RequestKey).(interface{ By() By }); ok {
		by, isAsked = r.By(), true
	}
	if a, ok := ctx.Value(actorKey).(Actor); ok {
		by.Actor, isAsked = a, true
	}
	return by, isAsked
}

// AuditLine is one line of the audit log: who did what, and the real reason, while the
// caller gets a generic one. A line holds no secret and no form input: an unknown
// username may be a password in the wrong field.
type AuditLine struct {
	Position record.Position
	At       time.Time
	What     Audited
	Reason   string // free text or one of the Reason constants; may be ""
	By
	ClientID  string
	UserID    string
	AccountID string
	FamilyID  string
	// Count is how many refusals or changes the line represents. It is 0 in a line about
	// one of them, which names its request.
	Count int
	Amr   Amr // of a sign-in, or of the one behind a grant
}

// changeLine is the audit line of a change, which is written in the change's own Update.
type changeLine struct {
	AuditLine
	at      time.Time
	tail    [8]byte
	isAsked bool
}

// change prepares the line of what is done with ctx. An empty reason, or a change that the
// program makes on its own, has no line; see [ByOf].
func (s *Store) change(ctx context.Context, reason string) changeLine {
	by, isAsked := ByOf(ctx)
	return changeLine{AuditLine{What: AuditAdmin, Reason: reason, By: by}, s.Now(), secret.NewTail(nil), isAsked && reason != ""}
}

func (c changeLine) write(tx kv.Txn) error {
	if !c.isAsked {
		return nil
	}
	return appendAudit(tx, c.AuditLine, c.at, c.tail)
}

func (c changeLine) ofClient(tx kv.Txn, id string) error {
	c.ClientID = id
	return c.write(tx)
}

func (c changeLine) ofUser(tx kv.Txn, u User) error {
	c.UserID, c.AccountID = u.Subject(), u.Account
	return c.write(tx)
}

func (c changeLine) ofAccount(tx kv.Txn, id string) error {
	c.AccountID = id
	return c.write(tx)
}

const auditRecord = 1

// appendAudit appends a line within tx, so that no token is issued without its line.
// tail was drawn before the transaction.
func appendAudit(tx kv.Txn, line AuditLine, now time.Time, tail [8]byte) error {
	_, err := appendAuditAt(tx, line, now, tail)
	return err
}

// appendAuditAt is appendAudit and returns where the line is.
func appendAuditAt(tx kv.Txn, line AuditLine, now time.Time, tail [8]byte) (record.Position, error) {
	head, err := readAuditHead(tx)
	if err != nil {
		return record.Position{}, err
	}
	line.At, line.Position = now, head.Next(now, tail)
	if err := tx.Set(record.NewKey(record.TagAudit).Position(line.Position), encodeAudit(line), time.Time{}); err != nil {
		return record.Position{}, err
	}
	e := record.NewEncoder(auditRecord).Position(line.Position)
	return line.Position, tx.Set(record.MetaKey(auditHeadName), e.B, time.Time{})
}

const auditHeadName = "audit"

func readAuditHead(r kv.Reader) (record.Position, error) {
	v, err := r.Get(record.MetaKey(auditHeadName))
	if record.IsAbsent(err) {
		return record.Position{}, nil
	}
	if err != nil {
		return record.Position{}, err
	}
	d := record.NewDecoder("audit head", auditRecord, v)
	head := d.Position()
	return head, d.Done()
}

// ListAudit returns up to limit lines after a position, oldest first. It writes the
// queued lines first; what is still being counted appears within a minute.
func (s *Store) ListAudit(ctx context.Context, behind record.Position, limit int) (lines []AuditLine, err error) {
	_ = s.flushAudit(ctx) // logged there; what is written can be read
	prefix := record.NewKey(record.TagAudit)
	r := prefix.From(append(append(record.Key(nil), prefix...).Position(behind), 0))
	r.Limit = limit
	err = s.db.View(ctx, func(rd kv.Reader) error {
		lines = lines[:0]
		for k, v := range rd.Scan(r) {
			line, err := decodeAudit(record.PositionAt(k), v)
			if err != nil {
				return err
			}
			lines = append(lines, line)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list audit: %w", err)
	}
	return lines, nil
}

// TrimAudit removes lines older than before, in batches.
func (s *Store) TrimAudit(ctx context.Context, before time.Time) error {
	prefix := record.NewKey(record.TagAudit)
	r := prefix.All()
	last := record.FirstPosition(before.Unix())
	r.Hi = append(append(record.Key(nil), prefix...), last[:]...)
	if err := record.DeleteAll(ctx, s.db, r); err != nil {
		return fmt.Errorf("trim audit: %w", err)
	}
	return nil
}

// Why a code or token does not fit a request. The caller gets one generic refusal; the
// audit log gets the reason.
var (
	errOtherClient   = fmt.Errorf("another client's: %w", record.ErrMismatch)
	errOtherRedirect = fmt.Errorf("another redirect URI: %w", record.ErrMismatch)
	errOtherVerifier = fmt.Errorf("another code verifier: %w", record.ErrMismatch)
)

var refusalReasons = []struct {
	err    error
	reason string
}{
	{errOtherClient, "another_clients"},
	{errOtherRedirect, "another_redirect_uri"},
	{errOtherVerifier, "another_code_verifier"},
	{record.ErrNotFound, "unknown"},
	{record.ErrDisabled, "client_or_user_disabled_or_tokens_ended"},
	{record.ErrReplayed, "used_before"},
	{record.ErrRevoked, "revoked"},
	{record.ErrExpired, "expired"},
	{record.ErrScope, "scope_not_granted"},
}

// RefusalReason returns the real reason of a refused code or token, and whether the
// audit log already has it: a replay is recorded together with the revocation.
func RefusalReason(err error) (reason string, isRecorded bool) {
	var r recorded
	for _, known := range refusalReasons {
		if errors.Is(err, known.err) {
			return known.reason, errors.As(err, &r)
		}
	}
	return otherRefusal, errors.As(err, &r)
}

const otherRefusal = "refused"

// RefusalReasons returns every reason that RefusalReason returns.
func RefusalReasons() []string {
	reasons := []string{otherRefusal}
	for _, known := range refusalReasons {
		reasons = append(reasons, known.reason)
	}
	return reasons
}

// recorded wraps a refusal that is already in the audit log.
type recorded struct{ error }

func (r recorded) Unwrap() error { return r.error }

func encodeAudit(l AuditLine) []byte {
	e := record.NewEncoder(auditRecord).Time(l.At)
	for _, text := range []string{string(l.What), l.Reason, l.RequestID, l.Source, l.Actor.ClientID, l.Actor.ClientName, l.Actor.OperatorID, l.ClientID, l.UserID, l.AccountID, l.FamilyID} {
		e.Str(text)
	}
	if e.Uint(uint64(l.Count)); l.Amr != AmrUnknown {
		e.Byte(byte(l.Amr))
	}
	return e.B
}

func decodeAudit(p record.Position, v []byte) (AuditLine, error) {
	d := record.NewDecoder("audit", auditRecord, v)
	l := AuditLine{Position: p, At: d.Time(), What: Audited(d.Str()), Reason: d.Str()}
	l.RequestID, l.Source = d.Str(), d.Str()
	l.Actor = Actor{ClientID: d.Str(), ClientName: d.Str(), OperatorID: d.Str()}
	l.ClientID, l.UserID, l.AccountID, l.FamilyID = d.Str(), d.Str(), d.Str(), d.Str()
	n := d.Uint()
	if l.Count = int(n); n > math.MaxInt32 {
		d.Fail("counts more than there can be")
	}
	if d.More() {
		l.Amr = decodeAmr(&d)
	}
	return l, d.Done()
}

// auditLine returns an audit line about the family.
func (f family) auditLine(what Audited, reason string, by By) AuditLine {
	user := User{ID: f.user}
	l := AuditLine{What: what, Reason: reason, By: by, ClientID: f.client, UserID: user.Subject(), AccountID: f.account, FamilyID: familyName(f.id)}
	if what == AuditGrant {
		l.Amr = f.amr
	}
	return l
}
