package pgkv

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"tollhouse/store/kv"
)

// Server describes a server to the others on its database.
type Server struct {
	ID      []byte    `json:"-"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Listen  []string  `json:"listen"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Jobs    []Job     `json:"jobs"`
	Backend int       `json:"backend"`        // the database's process for its presence
	Held    []Holder  `json:"held,omitempty"` // that are old
	Seen    time.Time `json:"-"`
}

// Found is what a server finds on the database when it joins the others.
type Found struct {
	Alone bool // no other server is alive
	First bool // it joins for the first time, and not again after its connection broke
	Site  map[string]string
	Clock Clock
}

// PresenceOptions configure a [Presence].
type PresenceOptions struct {
	Address *Address
	Server  Server
	Jobs    []Job // that this server can do
	Log     *slog.Logger
	// Judge decides whether the server may join, and returns what it sets in the site.
	// No other server joins until it returns.
	Judge func(Found) (set map[string]string, err error)
	// OnRefused is called when Judge refuses a server that joins again.
	OnRefused func(error)
	// OnLook is called after each look at the database and the others.
	OnLook func(State)
	// OnSite is called with the values of the site at each look, and every 2 s between them.
	OnSite func(map[string]string)

	patience int // multiplies the time limits of a stop
}

// Patient is [Options.Patient] for the time limits of a stop.
func (o PresenceOptions) Patient(n int) PresenceOptions {
	o.patience = n
	return o
}

// stopWait is how long a statement of a server that stops may take.
func (o PresenceOptions) stopWait() time.Duration {
	return connectTimeout * time.Duration(max(o.patience, 1))
}

// Presence is a server's registration among the servers of one database. One connection holds a
// lock that shows that a server is alive, and the locks of its jobs. When the connection breaks
// the jobs are lost, and the server joins again as soon as it can.
type Presence struct {
	o    PresenceOptions
	jobs *jobsHeld
	past horizons // of beats, one at a time

	mu      sync.Mutex
	session *Session // nil while the connection is broken
	state   State
}

// State is what a server knows of the database and the others, as of its last look.
type State struct {
	Away    error     // nil, or why the database does not answer
	Looked  time.Time // of this machine's clock; a look happens every 10 s while the database answers
	Clock   Clock
	Servers []Server  // that are alive, including this one
	Damage  string    // what the last check of any server found, or ""
	Checked time.Time // when it finished; the zero time of Unix before the first
	Size    int64     // bytes of the records with their indexes
	Held    []Holder
	Unfit   error // why the database cannot serve as it is now, or nil: its version, or lost privileges
}

const (
	beatEvery  = 10 * time.Second // between two looks at the others
	siteEvery  = 2 * time.Second  // between two looks at the site alone, which costs far less
	rejoinWait = time.Second
	rowsKept   = "1 day" // of servers that have stopped
	heldMax    = 16      // that a server tells of
	lease      = "60 s"  // a server keeps its jobs so long after its last beat
)

// ErrExclusive means that a command has the database to itself.
var ErrExclusive = fmt.Errorf("%w: a command such as restore or move has the database to itself", kv.ErrUnavailable)

// Join announces a server. It fails when Judge does, with [ErrExclusive], a
// *[RefusedError] or an *[AwayError]. The caller must Run the presence.
func Join(ctx context.Context, o PresenceOptions) (*Presence, error) {
	p := &Presence{o: o, jobs: newJobsHeld()}
	if err := p.join(ctx, true); err != nil {
		return nil, err
	}
	return p, nil
}

// join connects and takes its place. The first server holds the lock until it
// has written the shared settings.
func (p *Presence) join(ctx context.Context, first bool) (err error) {
	s, err := dialAs(ctx, p.o.Address, rolePresence)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.Close()
			p.jobs.loseAll() // their locks went with the session
		}
	}()
	if first {
		if refusal, err := s.checkShared(ctx, p.o.Address); refusal != nil || err != nil {
			return cmp.Or(refusal, err)
		}
	}
	found := Found{First: first}
	if found.Alone, err = s.tryLock(ctx, lockServer); err != nil {
		return err
	}
	if err := s.shareServers(ctx); err != nil {
		return err
	}
	if found.Site, err = s.Site(ctx); err != nil {
		return err
	}
	if found.Clock, err = s.Clock(ctx); err != nil {
		return err
	}
	if found.Clock.LastWrite, err = s.lastWrite(ctx); err != nil {
		return err
	}
	set, err := p.o.Judge(found)
	if err != nil {
		return err
	}
	if len(set) > 0 {
		if err := s.SetSite(ctx, set); err != nil {
			return err
		}
	}
	if p.o.Server.Backend, err = one[int](ctx, s, "select pg_backend_pid()"); err != nil {
		return err
	}
	if _, err = one[bool](ctx, s, "select pg_try_advisory_lock_shared"+instanceLock(found.Site)); err != nil {
		return err
	}
	if err := p.beat(ctx, s); err != nil {
		return err
	}
	if found.Alone {
		if _, err := one[bool](ctx, s, "select pg_advisory_unlock("+s.address.lock(lockServer)+")"); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.state.Away = s, nil
	return nil
}

const (
	joinTries = 40
	joinWait  = 50 * time.Millisecond
)

// shareServers takes the lock that servers share. Errors: [ErrExclusive].
func (s *Session) shareServers(ctx context.Context) error {
	for tries := 0; ; tries++ {
		shared, err := one[bool](ctx, s, "select pg_try_advisory_lock_shared("+s.address.lock(lockServer)+")")
		switch {
		case err != nil || shared:
			return err
		case tries == joinTries:
			return fmt.Errorf("%w%s", ErrExclusive, s.holders(ctx))
		}
		time.Sleep(joinWait) // another server writes the shared settings
	}
}

// heldLock selects the sessions of this database that have a lock.
func (a *Address) heldLock(lock int) string {
	return fmt.Sprintf("select pid from pg_locks where locktype = 'advisory' and granted and objsubid = 2 and database = (select oid from pg_database where datname = current_database()) and classid = %d::int8::oid and objid = %d", a.lockClass(), lock)
}

// Run keeps the server registered until ctx is done, and then leaves.
func (p *Presence) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.stay(ctx)
		if ctx.Err() != nil {
			break
		}
		p.lost(err)
		for {
			if pause(ctx, rejoinWait) != nil {
				break
			}
			err := p.join(ctx, false)
			if err == nil {
				p.o.Log.Info("database is back")
				break
			}
			if !errors.Is(err, kv.ErrUnavailable) && ctx.Err() == nil {
				p.o.OnRefused(err)
				return
			}
		}
	}
	p.Leave()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stay looks at the others at intervals, and returns when the connection breaks.
func (p *Presence) stay(ctx context.Context) error {
	for beaten := time.Now(); ; {
		waiting, cancel := context.WithTimeout(ctx, siteEvery)
		_, err := p.session.conn.WaitForNotification(waiting)
		over := waiting.Err() != nil
		cancel()
		if err != nil && !over || ctx.Err() != nil {
			return asAway(ctx, err)
		}
		if !over {
			continue
		}
		look := p.lookAtSite
		if time.Since(beaten) >= beatEvery-siteEvery/2 {
			look, beaten = p.beat, time.Now()
		}
		if err := p.toTheEnd(ctx, look); err != nil {
			return err
		}
	}
}

// lookAtSite passes the values of the site on.
func (p *Presence) lookAtSite(ctx context.Context, s *Session) error {
	site, err := s.Site(ctx)
	if err == nil {
		p.o.OnSite(site)
	}
	return err
}

// toTheEnd does not break off a statement when ctx is done: that closes the connection
// immediately, and the database finds out later, so that the locks outlive the server.
func (p *Presence) toTheEnd(ctx context.Context, look func(context.Context, *Session) error) error {
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.o.stopWait(), cancel) })()
	return look(beating, p.session)
}

// lost gives up the jobs, which another server may take from now on.
func (p *Presence) lost(err error) {
	p.jobs.loseAll()
	p.mu.Lock()
	session := p.session
	p.session, p.state.Away = nil, err
	p.mu.Unlock()
	session.Close()
	p.o.Log.Warn("database connection lost", "err", err)
}

// Leave removes the server's row and gives up its locks. Run calls it before it returns.
func (p *Presence) Leave() {
	p.jobs.loseAll()
	p.mu.Lock()
	session := p.session
	p.session = nil
	p.mu.Unlock()
	if session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.o.stopWait())
	defer cancel()
	_ = session.exec(ctx, "delete from server where id = $1", p.o.Server.ID)
	_ = session.exec(ctx, "select pg_advisory_unlock_all()") // now; otherwise soon after the connection closes
	session.Close()
}

// beat takes free jobs, writes the server's row and looks at the others.
func (p *Presence) beat(ctx context.Context, s *Session) (err error) {
	if err := s.endStopped(ctx, p.o.Log); err != nil {
		return err
	}
	for _, job := range p.o.Jobs {
		if p.Holds(job) {
			continue
		}
		free, err := s.tryLock(ctx, jobLocks[job])
		if err != nil {
			return err
		}
		if free {
			p.jobs.take(job)
			p.o.Log.Info("job taken", "job", job)
		}
	}
	var now State
	found, held, err := s.held(ctx)
	switch {
	case err == nil:
		p.past.note(found)
		for i := range held {
			p.past.date(&held[i])
		}
		now.Held = held
	case s.conn.IsClosed():
		return err
	}
	if now.Unfit, err = s.unfit(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.state.Unfit = now.Unfit // a look without privileges does not end
	p.mu.Unlock()
	self := p.o.Server
	self.Jobs, self.Held = p.jobs.list(), oldOf(held, found.at)
	self.Held = self.Held[:min(len(self.Held), heldMax)]
	told, err := json.Marshal(self)
	if err != nil {
		return err
	}
	err = s.exec(ctx, "insert into server (id, told, seen) values ($1, $2, clock_timestamp()) on conflict (id) do update set told = excluded.told, seen = excluded.seen", self.ID, string(told))
	if err == nil && slices.Contains(self.Jobs, JobSweep) {
		err = s.exec(ctx, "delete from server where seen < clock_timestamp() - interval '"+rowsKept+"'")
	}
	if err != nil {
		return err
	}
	if now.Clock, err = s.Clock(ctx); err != nil {
		return err
	}
	if now.Servers, err = s.Servers(ctx); err != nil {
		return err
	}
	site, err := s.Site(ctx)
	if err != nil {
		return err
	}
	checked, _ := strconv.ParseInt(site[siteChecked], 10, 64)
	now.Damage, now.Checked = site[SiteDamage], time.Unix(checked, 0)
	if now.Size, err = s.size(ctx, site); err != nil {
		return err
	}
	now.Looked = time.Now()
	p.mu.Lock()
	p.state = now
	p.mu.Unlock()
	p.o.OnLook(now)
	p.o.OnSite(site)
	return nil
}

// endStopped ends the sessions of servers that have not written their rows for a lease: they
// are stopped or cut off, and their jobs are free again.
func (s *Session) endStopped(ctx context.Context, log *slog.Logger) error {
	rows, err := s.conn.Query(ctx, `select coalesce(told->>'host', ''), coalesce(told->>'pid', '') from server
		where seen < clock_timestamp() - interval '`+lease+`' and (told->>'backend')::int in (`+s.address.heldLock(lockServer)+`) and pg_terminate_backend((told->>'backend')::int)`)
	if err != nil {
		return asAway(ctx, err)
	}
	var host, pid string
	_, err = pgx.ForEachRow(rows, []any{&host, &pid}, func() error {
		log.Warn("ended the session of a server that does not answer", "host", host, "pid", pid, "lease", lease)
		return nil
	})
	if err != nil {
		return asAway(ctx, err)
	}
	return nil
}

// RecordCheck tells all servers what a check found: damage, or nil.
func (p *Presence) RecordCheck(ctx context.Context, damage error) error {
	s, err := Dial(ctx, p.o.Address)
	if err != nil {
		return err
	}
	defer s.Close()
	text, now := "", time.Now()
	if damage != nil {
		text = damage.Error()
	}
	p.mu.Lock()
	p.state.Damage, p.state.Checked = text, now
	p.mu.Unlock()
	return s.SetSite(ctx, map[string]string{SiteDamage: text, siteChecked: strconv.FormatInt(now.Unix(), 10)})
}

// State returns what the last look found.
func (p *Presence) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Servers returns the servers that are alive, as their locks show.
func (s *Session) Servers(ctx context.Context) ([]Server, error) {
	rows, err := s.conn.Query(ctx, "select id, told::text, seen from server where (told->>'backend')::int in ("+s.address.heldLock(lockServer)+") order by told->>'started', id")
	if err != nil {
		return nil, asAway(ctx, err)
	}
	servers := []Server{}
	var id []byte
	var told string
	var seen time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &told, &seen}, func() error {
		var server Server
		if err := json.Unmarshal([]byte(told), &server); err != nil {
			return nil // of a later version
		}
		server.ID, server.Seen = slices.Clone(id), seen
		servers = append(servers, server)
		return nil
	})
	if err != nil {
		return nil, asAway(ctx, err)
	}
	return servers, nil
}
