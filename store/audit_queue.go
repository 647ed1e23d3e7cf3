package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

const (
	auditQueueMax   = 1 << 12 // lines waiting to be written; further ones are counted and lost
	refusalsMax     = 1 << 10 // lines about refusals among them; further refusals are counted
	auditBatchMax   = 300     // lines in one Update
	auditRetryEvery = 5 * time.Second
)

// auditQueue holds lines about what is no change of the store: refusals, and what an operator
// has begun. A line stays in the queue until it is written; a crash loses
// it. Lines about refusals take up a quarter of the queue at most, so that refusals cannot
// displace other lines, and what exceeds the limits of auditCounts is counted.
type auditQueue struct {
	flushing sync.Mutex    // held while lines move from the queue to the log
	lostEver atomic.Uint64 // since the store was opened

	mu       sync.Mutex
	lines    []queuedLine // oldest first
	refusals int          // lines about refusals and counts among them
	counts   auditCounts
}

type queuedLine struct {
	line    AuditLine
	at      time.Time
	refusal bool
}

// Audit queues a line that strangers cannot cause. It does not block.
func (s *Store) Audit(line AuditLine) {
	now, q := s.Now(), &s.audits
	q.mu.Lock()
	if len(q.lines)-q.refusals < auditQueueMax {
		q.lines = append(q.lines, queuedLine{line: line, at: now})
	} else {
		q.lostEver.Add(1)
	}
	q.mu.Unlock()
	s.lastUsed.signal()
}

// AuditNow is Audit for a change that must not be reported before its line is written. A
// line that cannot be written stays queued.
func (s *Store) AuditNow(ctx context.Context, line AuditLine) {
	s.Audit(line)
	_ = s.flushAudit(ctx) // logged there
}

// AuditRefusal queues a line about a refusal, which strangers can cause, or counts it. It
// does not block.
func (s *Store) AuditRefusal(line AuditLine) {
	now, q := s.Now(), &s.audits
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endMinute(now)
	if q.refusals < refusalsMax && q.counts.admits(line, now) {
		q.lines = append(q.lines, queuedLine{line: line, at: now, refusal: true})
		q.refusals++
		s.lastUsed.signal()
		return
	}
	q.counts.add(line, now)
}

// auditChange appends the line of a tenant's change within tx, or counts the change if the
// tenant has made too many. The closure of a transaction may run again, with the same tail.
func (s *Store) auditChange(tx kv.Txn, line AuditLine, by string, tail [8]byte) error {
	now, q := s.Now(), &s.audits
	q.mu.Lock()
	q.endMinute(now)
	admitted := q.counts.admitsChange(line, by, tail, now)
	q.mu.Unlock()
	if !admitted {
		return nil
	}
	return appendAudit(tx, line, now, tail)
}

// endMinute queues the counts once they are a minute old. If the queue is full, counting
// continues.
func (q *auditQueue) endMinute(now time.Time) {
	if q.counts.isOver(now) {
		q.queueCounts(now)
	}
}

func (q *auditQueue) queueCounts(now time.Time) (queued bool) {
	if q.refusals+len(q.counts.order) > refusalsMax {
		return false
	}
	for _, line := range q.counts.take(now) {
		q.lines = append(q.lines, queuedLine{line: line, at: now, refusal: true})
		q.refusals++
	}
	return true
}

// tick queues counts that are old by the machine's clock, since the store's may have
// stopped, and reports whether lines are waiting.
func (q *auditQueue) tick(now time.Time) (waiting bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.endMinute(now); q.counts.tick() && q.queueCounts(now) {
		q.counts.forgetRates()
	}
	return len(q.lines) > 0
}

// flushAudit writes the queued lines in order. What cannot be written stays queued. A
// cancelled caller does not stop it.
func (s *Store) flushAudit(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	s.audits.flushing.Lock()
	defer s.audits.flushing.Unlock()
	for {
		batch := s.audits.next(s.Now())
		if len(batch) == 0 {
			return nil
		}
		tails := make([][8]byte, len(batch))
		for i := range tails {
			tails[i] = secret.NewTail(nil)
		}
		ctx := s.naming(ctx, func() [][]byte { return [][]byte{record.MetaKey(auditHeadName)} })
		err := record.UpdateAs(ctx, s.db, classOf(batch), func(tx kv.Txn) error {
			for i, queued := range batch {
				if err := appendAudit(tx, queued.line, queued.at, tails[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			s.log.Warn("audit lines not written yet", "count", len(batch), "err", err)
			return fmt.Errorf("write audit lines: %w", err)
		}
		s.audits.written(batch)
	}
}

// classOf returns the class of lines. What was done is recorded as long as anything can be:
// the change itself was not refused. Lines that are about refusals alone are not.
func classOf(batch []queuedLine) kv.Class {
	if slices.ContainsFunc(batch, func(q queuedLine) bool { return !q.refusal }) {
		return kv.Ruling
	}
	return kv.Access
}

// endAudit writes the queued lines and the counts, for the last time.
func (s *Store) endAudit(ctx context.Context) {
	q := &s.audits
	if s.flushAll(ctx) == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	lost := len(q.lines) + len(q.counts.order)
	q.lostEver.Add(uint64(lost))
	s.log.Warn("audit lines lost", "count", lost)
}

// flushAll writes the queued lines, and then the counts before their minute is over, since
// a full queue has no room for them.
func (s *Store) flushAll(ctx context.Context) error {
	if err := s.flushAudit(ctx); err != nil {
		return err
	}
	s.audits.mu.Lock()
	s.audits.queueCounts(s.Now())
	s.audits.mu.Unlock()
	return s.flushAudit(ctx)
}

// next returns the lines to write next.
func (q *auditQueue) next(now time.Time) []queuedLine {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endMinute(now)
	return slices.Clone(q.lines[:min(len(q.lines), auditBatchMax)])
}

// written removes the lines that were written.
func (q *auditQueue) written(batch []queuedLine) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = slices.Delete(q.lines, 0, len(batch))
	for _, queued := range batch {
		if queued.refusal {
			q.refusals--
		}
	}
}
