package pgkv

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Holder keeps PostgreSQL from removing old versions of rows, or files of its log.
type Holder struct {
	Kind  HolderKind `json:"kind"`
	PID   int        `json:"pid,omitempty"` // of a session
	Name  string     `json:"name"`          // application_name, gid, or name of the slot
	Role  string     `json:"role,omitempty"`
	Since time.Time  `json:"since"` // by the database's clock, at the latest; zero if not known

	horizon, lsn *int64
}

// HolderKind is what a [Holder] is.
type HolderKind string

// The kinds.
const (
	HeldBySession  HolderKind = "session"
	HeldByBackup   HolderKind = "backup" // or an export, of our own
	HeldByPrepared HolderKind = "prepared"
	HeldBySlot     HolderKind = "slot"
)

// HolderKinds are all kinds.
var HolderKinds = []HolderKind{HeldBySession, HeldByBackup, HeldByPrepared, HeldBySlot}

// HeldLong is how old a Holder is that operators are warned of.
const HeldLong = time.Minute

// Age returns how old a Holder is at a time of the database's clock, or 0 if that is not known.
func (h Holder) Age(now time.Time) time.Duration {
	if h.Since.IsZero() {
		return 0
	}
	return now.Sub(h.Since)
}

// String names it.
func (h Holder) String() string {
	switch h.Kind {
	case HeldByPrepared:
		return fmt.Sprintf("prepared transaction %q of role %q", h.Name, h.Role)
	case HeldBySlot:
		return fmt.Sprintf("replication slot %q", h.Name)
	case HeldByBackup:
		return fmt.Sprintf("a backup or export of tollhouse (process %d)", h.PID)
	}
	return fmt.Sprintf("process %d of role %q (application_name %q)", h.PID, h.Role, h.Name)
}

func (h Holder) isSame(as Holder) bool {
	return h.Kind == as.Kind && h.PID == as.PID && h.Name == as.Name
}

// selectHolders needs no privilege. Only members of a session's role and of pg_read_all_stats see
// when its transaction began, but all see its transaction id and that of its snapshot. A vacuum
// keeps nothing. A physical replication has no database and keeps rows of all. PostgreSQL 17 knows
// since when a slot is inactive.
const selectHolders = `with now as (select clock_timestamp() as at, pg_snapshot_xmax(pg_current_snapshot())::text::int8 as next, (pg_current_wal_lsn() - '0/0')::int8 as lsn),
held as (
	select case when usename = current_user and application_name like '% backup' then 'backup' else 'session' end as kind, pid, coalesce(application_name, '') as name, usename::text as role, xact_start as since,
		greatest(age(backend_xid), age(backend_xmin)) as age, null::int8 as lsn
	from pg_stat_activity where pid <> pg_backend_pid() and usename is not null and (datid is null or datname = current_database()) and pid not in (select pid from pg_stat_progress_vacuum)
	union all select 'prepared', 0, gid, owner::text, prepared, age(transaction), null from pg_prepared_xacts where database = current_database()
	union all select 'slot', 0, slot_name::text, '', case when not active then (to_jsonb(s)->>'inactive_since')::timestamptz end, age(xmin), (coalesce(confirmed_flush_lsn, restart_lsn) - '0/0')::int8
		from pg_replication_slots s where wal_status is distinct from 'lost'
)
select now.at, now.next, now.lsn, kind, pid, name, role, since, next - age, held.lsn from now left join held on age > 0 or held.lsn < now.lsn order by kind, pid, name`

// horizons remembers how far the transaction ids and the log were at times, and so how old an id
// or a position is. It is for one goroutine.
type horizons []horizon

type horizon struct {
	at        time.Time
	next, lsn int64
}

// horizonsMax is about three hours of looks. Older ones are thinned out.
const horizonsMax = 1024

func (h *horizons) note(now horizon) {
	if n := len(*h); n > 0 && (now.next < (*h)[n-1].next || now.at.Before((*h)[n-1].at)) {
		*h = nil // another cluster, such as one restored to an earlier time
	}
	if *h = append(*h, now); len(*h) > horizonsMax {
		kept := (*h)[:0]
		for i, one := range *h {
			if i%2 == 0 || i > horizonsMax/2 {
				kept = append(kept, one)
			}
		}
		*h = kept
	}
}

// passed returns when x was first seen to be passed. It is first if x is older than what h knows.
func (h horizons) passed(x int64, of func(horizon) int64) (at time.Time, first bool) {
	i, _ := slices.BinarySearchFunc(h, x+1, func(one horizon, x int64) int { return cmp.Compare(of(one), x) })
	if i == len(h) {
		i--
	}
	return h[i].at, i == 0
}

// date sets since when a Holder is there, as far as that is known: at most since its transaction
// began, and no longer than its horizon is passed.
func (h horizons) date(o *Holder) {
	for _, x := range []struct {
		of    *int64
		value func(horizon) int64
	}{{o.horizon, func(one horizon) int64 { return one.next }}, {o.lsn, func(one horizon) int64 { return one.lsn }}} {
		if x.of == nil || o.Kind == HeldByPrepared {
			continue
		}
		at, first := h.passed(*x.of, x.value)
		if o.Since.IsZero() || !first && o.Kind != HeldBySlot && at.After(o.Since) || o.Kind == HeldBySlot && at.Before(o.Since) {
			o.Since = at
		}
	}
}

// held returns the sessions, prepared transactions and replication slots that keep something
// from being removed. Errors: *[AwayError].
func (s *Session) held(ctx context.Context) (now horizon, holders []Holder, err error) {
	rows, err := s.conn.Query(ctx, selectHolders)
	if err != nil {
		return now, nil, asAway(ctx, err)
	}
	var kind, name, role *string
	var pid *int
	var since *time.Time
	var x, lsn *int64
	_, err = pgx.ForEachRow(rows, []any{&now.at, &now.next, &now.lsn, &kind, &pid, &name, &role, &since, &x, &lsn}, func() error {
		if kind == nil {
			return nil
		}
		h := Holder{Kind: HolderKind(*kind), PID: *pid, Name: *name, Role: *role, horizon: x, lsn: lsn}
		if since != nil {
			h.Since = *since
		}
		holders = append(holders, h)
		return nil
	})
	if err != nil {
		return now, nil, asAway(ctx, err)
	}
	return now, holders, nil
}

// Holders returns those that are [HeldLong] old, the oldest first, and the time. When a session
// began may only be known to the servers, which have seen it grow old. Errors: *[AwayError].
func (s *Session) Holders(ctx context.Context, servers []Server) (now time.Time, old []Holder, err error) {
	found, holders, err := s.held(ctx)
	for _, h := range holders {
		for _, server := range servers {
			for _, seen := range server.Held {
				if h.isSame(seen) && (h.Since.IsZero() || h.Kind == HeldBySlot && seen.Since.Before(h.Since)) {
					h.Since = seen.Since
				}
			}
		}
		old = append(old, h)
	}
	return found.at, oldOf(old, found.at), err
}

// oldOf returns those that are old, the oldest first.
func oldOf(holders []Holder, now time.Time) (old []Holder) {
	for _, h := range holders {
		if h.Age(now) >= HeldLong {
			old = append(old, h)
		}
	}
	slices.SortStableFunc(old, func(a, b Holder) int { return a.Since.Compare(b.Since) })
	return old
}
