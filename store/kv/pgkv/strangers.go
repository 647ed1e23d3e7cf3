package pgkv

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Any role that may connect to the database can take our advisory locks: PostgreSQL gives
// them no owner. It cannot read or change the data.

// Stranger is a session that holds a lock of the servers and is not that of a server. It
// may be a command such as restore, which has the role of the servers.
type Stranger struct {
	Lock        string // what waits for it
	PID         int    // the database's process
	Role        string
	Application string // as the session calls itself
	Address     string // "" for a socket of the database's machine
	Hidden      bool   // the address may not be seen
	OurRole     bool
}

// String names the session.
func (s Stranger) String() string {
	from := "on the database's machine"
	switch {
	case s.Hidden:
		from = "from an address that only pg_monitor sees"
	case s.Address != "":
		from = "from " + s.Address
	}
	return fmt.Sprintf("process %d of role %q (application_name %q, %s)", s.PID, s.Role, s.Application, from)
}

// Describe names sessions and what they hold.
func Describe(strangers []Stranger) string {
	each := make([]string, len(strangers))
	for i, s := range strangers {
		each[i] = fmt.Sprintf("%s holds %s", s, s.Lock)
	}
	return strings.Join(each, "; ")
}

const (
	strangersMax = 20
	serverFresh  = "1 minute" // since a server wrote its row; it does every beatEvery
)

// Strangers returns the sessions that hold a lock of the servers, those with another role
// first. Errors: *[AwayError].
func (s *Session) Strangers(ctx context.Context) ([]Stranger, error) {
	rows, err := s.conn.Query(ctx, `select l.classid::int8, l.objid::int8, l.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''),
			coalesce(a.query = '<insufficient privilege>', true), coalesce(a.usename = current_user, false)
		from pg_locks l left join pg_stat_activity a on a.pid = l.pid
		where l.locktype = 'advisory' and l.granted and l.objsubid = 2 and l.database = (select oid from pg_database where datname = current_database()) and l.pid <> pg_backend_pid()
			and (l.classid = $1::int8::oid or l.classid = $2::int8::oid and a.usename is distinct from current_user)
			and l.pid not in (select (told->>'backend')::int from server where seen > clock_timestamp() - interval '`+serverFresh+`' and told->>'backend' is not null)
		order by 8, 2, 3 limit $3`, oidOf(s.address.lockClass()), oidOf(s.address.namedClass()), strangersMax)
	if err != nil {
		return nil, asAway(ctx, err)
	}
	var strangers []Stranger
	var class, lock int64
	var found Stranger
	_, err = pgx.ForEachRow(rows, []any{&class, &lock, &found.PID, &found.Role, &found.Application, &found.Address, &found.Hidden, &found.OurRole}, func() error {
		found.Lock = s.address.lockName(class, int(lock))
		strangers = append(strangers, found)
		return nil
	})
	if err != nil {
		return nil, asAway(ctx, err)
	}
	return strangers, nil
}

func (a *Address) lockName(class int64, lock int) string {
	switch {
	case class == oidOf(a.namedClass()):
		return "a lock that backups wait for"
	case lock == lockServer:
		return "the lock of running servers, which starts, restore and move wait for"
	case lock == lockSchema:
		return "the lock of the tables, which a first start and restore wait for"
	}
	for job, number := range jobLocks {
		if number == lock {
			return fmt.Sprintf("the lock of the job %s, which no server can do", job)
		}
	}
	return fmt.Sprintf("the lock %d of the servers", lock)
}

// oidOf returns the class of a lock as pg_locks has it.
func oidOf(class int32) int64 { return int64(uint32(class)) }

// holders says who holds the lock of running servers, for an error, or "".
func (s *Session) holders(ctx context.Context) string {
	strangers, err := s.Strangers(ctx)
	if err != nil || len(strangers) == 0 {
		return ""
	}
	return ": " + Describe(strangers)
}
