package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Audited is what happened, as the audit record names it.
type Audited string

// What is recorded.
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
)

// By is where a request came from, for the audit record.
type By struct {
	RequestID string
	Source    string // the address, or "" on the admin socket
}

// AuditLine is one line of the audit record: who did what, and the real reason,
// of which the caller was told the bland one. No line holds a secret, nor what
// was typed into a form: a name that is nobody's may be somebody's password.
type AuditLine struct {
	Position Position
	At       time.Time
	What     Audited
	Reason   string // in our own words, or one of the Reason constants; "" when there is nothing to explain
	By
	ClientID  string
	UserID    string
	AccountID string
	FamilyID  string
}

const auditRecord = 1

const (
	auditQueueMax = 1 << 12 // lines that wait to be written; past that they are counted and lost
	auditBatchMax = 300     // lines written in one Update
)

// appendAudit writes a line within tx, behind all others: no grant without its
// line. tail was drawn before the transaction.
func appendAudit(tx kv.Txn, line AuditLine, now time.Time, tail [8]byte) error {
	head, err := readAuditHead(tx)
	if err != nil {
		return err
	}
	line.At, line.Position = now, head.next(now, tail)
	if err := tx.Set(newKey(tagAudit).position(line.Position), encodeAudit(line), time.Time{}); err != nil {
		return err
	}
	e := newEncoder(auditRecord)
	e.position(line.Position)
	return tx.Set(metaKey(auditHeadName), e.b, time.Time{})
}

const auditHeadName = "audit"

func readAuditHead(r kv.Reader) (Position, error) {
	v, err := r.Get(metaKey(auditHeadName))
	if isAbsent(err) {
		return Position{}, nil
	}
	if err != nil {
		return Position{}, err
	}
	d := newDecoder("audit head", auditRecord, v)
	head := d.position()
	return head, d.done()
}

// auditQueue holds lines that belong to no write of a token: refusals, sign-ins,
// throttling, administrative changes. A request does not wait for them; a crash
// loses those of its last moments.
type auditQueue struct {
	flushing sync.Mutex    // held while lines are on their way from the queue to the record
	lostEver atomic.Uint64 // since the store was opened

	mu    sync.Mutex
	lines []queuedLine
	lost  int
}

type queuedLine struct {
	line AuditLine
	at   time.Time
}

// Audit notes a line that belongs to no write. It does not wait.
func (s *Store) Audit(line AuditLine) {
	q := &s.audits
	q.mu.Lock()
	if len(q.lines) < auditQueueMax {
		q.lines = append(q.lines, queuedLine{line: line, at: s.Now()})
	} else {
		q.lost++
		q.lostEver.Add(1)
	}
	q.mu.Unlock()
	s.marks.signal()
}

// flushAudit writes the lines that wait, as they stood in the queue. A batch
// that cannot be written is lost, and the log says so; that the caller leaves is
// no reason to lose one.
func (s *Store) flushAudit(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	s.audits.flushing.Lock()
	defer s.audits.flushing.Unlock()
	for {
		batch, lost := s.audits.take()
		if lost > 0 {
			s.log.Warn("audit lines lost: more came than could be written", "count", lost)
		}
		if len(batch) == 0 {
			return
		}
		tails := make([][8]byte, len(batch))
		for i := range tails {
			tails[i] = secret.NewLateTail()
		}
		err := s.db.Update(ctx, func(tx kv.Txn) error {
			for i, queued := range batch {
				if err := appendAudit(tx, queued.line, queued.at, tails[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			s.audits.lostEver.Add(uint64(len(batch)))
			s.log.Warn("audit lines not written", "count", len(batch), "err", err)
		}
	}
}

func (q *auditQueue) take() (batch []queuedLine, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.lines), auditBatchMax)
	batch = slices.Clone(q.lines[:n])
	q.lines = slices.Delete(q.lines, 0, n)
	lost, q.lost = q.lost, 0
	return batch, lost
}

// ListAudit returns at most limit lines behind a position, oldest first. The
// lines that wait are written before: whoever reads sees what was done.
func (s *Store) ListAudit(ctx context.Context, behind Position, limit int) (lines []AuditLine, err error) {
	s.flushAudit(ctx)
	prefix := newKey(tagAudit)
	r := prefix.from(append(append(key(nil), prefix...).position(behind), 0))
	r.Limit = limit
	err = s.db.View(ctx, func(rd kv.Reader) error {
		lines = lines[:0]
		for k, v := range rd.Scan(r) {
			line, err := decodeAudit(positionAt(k), v)
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

// TrimAudit removes the lines older than the moment given, in batches.
func (s *Store) TrimAudit(ctx context.Context, before time.Time) error {
	prefix := newKey(tagAudit)
	r := prefix.all()
	last := firstPosition(before.Unix())
	r.Hi = append(append(key(nil), prefix...), last[:]...)
	if err := s.deleteAll(ctx, r); err != nil {
		return fmt.Errorf("trim audit: %w", err)
	}
	return nil
}

// The ways in which a code or a token is not the one for a request: one refusal
// to the caller, and each its own reason in the record.
var (
	errOtherClient   = fmt.Errorf("another client's: %w", ErrMismatch)
	errOtherRedirect = fmt.Errorf("another redirect URI: %w", ErrMismatch)
	errOtherVerifier = fmt.Errorf("another code verifier: %w", ErrMismatch)
)

var refusalReasons = []struct {
	err    error
	reason string
}{
	{errOtherClient, "another_clients"},
	{errOtherRedirect, "another_redirect_uri"},
	{errOtherVerifier, "another_code_verifier"},
	{ErrNotFound, "unknown"},
	{ErrDisabled, "client_or_user_disabled_or_tokens_ended"},
	{ErrReplayed, "used_before"},
	{ErrRevoked, "revoked"},
	{ErrExpired, "expired"},
	{ErrScope, "scope_not_granted"},
}

// RefusalReason returns the real reason for which a code or a token was
// refused, and whether the record has a line of it already: a replay's is
// written with what it revokes.
func RefusalReason(err error) (reason string, isRecorded bool) {
	var r recorded
	for _, known := range refusalReasons {
		if errors.Is(err, known.err) {
			return known.reason, errors.As(err, &r)
		}
	}
	return "refused", errors.As(err, &r)
}

// recorded marks a refusal that has its line in the audit record.
type recorded struct{ error }

func (r recorded) Unwrap() error { return r.error }

func encodeAudit(l AuditLine) []byte {
	e := newEncoder(auditRecord)
	e.time(l.At)
	for _, text := range []string{string(l.What), l.Reason, l.RequestID, l.Source, l.ClientID, l.UserID, l.AccountID, l.FamilyID} {
		e.str(text)
	}
	return e.b
}

func decodeAudit(p Position, v []byte) (AuditLine, error) {
	d := newDecoder("audit", auditRecord, v)
	l := AuditLine{Position: p, At: d.time(), What: Audited(d.str()), Reason: d.str()}
	l.RequestID, l.Source = d.str(), d.str()
	l.ClientID, l.UserID, l.AccountID, l.FamilyID = d.str(), d.str(), d.str(), d.str()
	return l, d.done()
}

// auditLine tells of a family.
func (f family) auditLine(what Audited, reason string, by By) AuditLine {
	user := User{ID: f.user}
	return AuditLine{What: what, Reason: reason, By: by, ClientID: f.client, UserID: user.Subject(), AccountID: f.account, FamilyID: familyName(f.id)}
}
