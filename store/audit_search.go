package store

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// AuditFilter selects audit lines. An empty list or a zero value selects all.
type AuditFilter struct {
	Kinds       []Audited // if any: the others are left out
	But         []Audited // kinds that are left out
	ButReason   string    // if any: lines with this reason are left out
	UserIDs     []string
	ClientIDs   []string // which it is about, or which did it
	AccountID   string
	OperatorIDs []string
	Source      netip.Prefix
	From, To    time.Time // both inclusive
}

// Matches reports whether a line is selected.
func (f AuditFilter) Matches(l AuditLine) bool {
	if slices.Contains(f.But, l.What) || f.ButReason != "" && l.Reason == f.ButReason {
		return false
	}
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, l.What) || f.AccountID != "" && l.AccountID != f.AccountID {
		return false
	}
	if !isOneOf(l.ClientID, f.ClientIDs) && !isOneOf(l.Actor.ClientID, f.ClientIDs) || !isOneOf(l.UserID, f.UserIDs) || !isOneOf(l.Actor.OperatorID, f.OperatorIDs) {
		return false
	}
	if !f.From.IsZero() && l.At.Before(f.From) || !f.To.IsZero() && l.At.After(f.To) {
		return false
	}
	if !f.Source.IsValid() {
		return true
	}
	source, err := netip.ParseAddr(l.Source)
	return err == nil && f.Source.Contains(source.Unmap())
}

func isOneOf(id string, ids []string) bool { return len(ids) == 0 || slices.Contains(ids, id) }

// AuditSearchedMax bounds the lines that one search reads.
const AuditSearchedMax = 10_000

// AuditPage is one page of a search, newest first.
type AuditPage struct {
	Lines []AuditLine
	More  bool
	// Next is the position before which the search continues. It may be that of a line
	// that does not match, if AuditSearchedMax lines were read.
	Next record.Position
}

// SearchAudit returns up to limit lines that match, newest first, before a position; the
// zero position is the end of the log. It writes the queued lines first, as
// [Store.ListAudit] does.
func (s *Store) SearchAudit(ctx context.Context, f AuditFilter, before record.Position, limit int) (page AuditPage, err error) {
	_ = s.flushAudit(ctx) // logged there; what is written can be read
	return s.readAudit(ctx, f, before, limit, AuditSearchedMax)
}

// auditGlanced bounds the lines that a glance reads.
const auditGlanced = 1000

// GlanceAudit returns up to limit of the newest lines that match. It writes nothing and reads
// 1,000 lines at most, so it lacks what was queued in the last moment.
func (s *Store) GlanceAudit(ctx context.Context, f AuditFilter, limit int) ([]AuditLine, error) {
	page, err := s.readAudit(ctx, f, record.Position{}, limit, auditGlanced)
	return page.Lines, err
}

func (s *Store) readAudit(ctx context.Context, f AuditFilter, before record.Position, limit, readMax int) (page AuditPage, err error) {
	r := auditRange(f, before)
	r.Limit = readMax + 1
	err = s.db.View(ctx, func(rd kv.Reader) error {
		page = AuditPage{}
		read := 0
		for k, v := range rd.Scan(r) {
			if read == readMax || len(page.Lines) == limit {
				page.More = true
				return nil
			}
			line, err := decodeAudit(record.PositionAt(k), v)
			if err != nil {
				return err
			}
			read++
			page.Next = line.Position
			if f.Matches(line) {
				page.Lines = append(page.Lines, line)
			}
		}
		return nil
	})
	if err != nil {
		return AuditPage{}, fmt.Errorf("search audit: %w", err)
	}
	return page, nil
}

// auditRange is the range of keys between the filter's times, from its end.
func auditRange(f AuditFilter, before record.Position) kv.Range {
	prefix := record.NewKey(record.TagAudit)
	r := prefix.All()
	if !f.From.IsZero() {
		first := record.FirstPosition(f.From.Unix())
		r.Lo = append(slices.Clone(prefix), first[:]...)
	}
	if !f.To.IsZero() {
		// A queued line may have a position slightly later than its time.
		last := record.FirstPosition(f.To.Unix() + 60)
		r.Hi = append(slices.Clone(prefix), last[:]...)
	}
	if !before.IsZero() {
		if hi := append(slices.Clone(prefix), before[:]...); string(hi) < string(r.Hi) {
			r.Hi = hi
		}
	}
	r.Reverse = true
	return r
}
