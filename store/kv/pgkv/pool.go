package pgkv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"tollhouse/store/kv"
)

const (
	// A connection that was not needed for idleMax is closed, as long as idleKept stay open.
	idleMax  = 5 * time.Minute
	idleKept = 2
	// lifeMax is the age at which a connection is replaced, so that the database judges its
	// password and certificate again. Up to a tenth less, so that not all end together.
	lifeMax = time.Hour
	// fullPause is between two attempts to connect while the database has too many connections.
	fullPause = 250 * time.Millisecond
)

// pool keeps the connections of readers.
type pool struct {
	db    *DB
	slots chan struct{} // one for each connection in use
	freed chan *conn    // to a caller who cannot connect because the database has too many

	mu    sync.Mutex
	idle  []*conn     // the one that is idle longest is used first: its rollback has finished
	since []time.Time // since[n] is since when more than n have been idle
	epoch uint64      // older connections are not used again
	shut  bool
}

func newPool(db *DB) *pool {
	return &pool{db: db, slots: make(chan struct{}, db.opts.Connections), freed: make(chan *conn)}
}

// take returns a connection, which the caller puts back. Errors: [kv.ErrUnavailable], or
// that of ctx.
func (p *pool) take(ctx context.Context) (*conn, error) {
	begun, wait := time.Now(), p.db.opts.wait(connectionWait)
	select {
	case p.slots <- struct{}{}:
	default:
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			p.db.counts.unavailable.Add(1)
			return nil, fmt.Errorf("%w: all %d connections to the database are in use", kv.ErrAway, cap(p.slots))
		}
	}
	for {
		c, epoch := p.pop()
		left := max(wait-time.Since(begun), time.Second)
		if c == nil {
			fresh, err := p.fresh(ctx, left, epoch)
			if err == nil {
				return fresh, nil
			}
			if !hasCode(err, codeTooMany) || ctx.Err() != nil || time.Since(begun) >= wait {
				<-p.slots
				return nil, cmp.Or(ctx.Err(), p.db.unavailable(err))
			}
			if c = p.handedOver(ctx); c == nil {
				continue
			}
		}
		err := c.settle(left)
		if err == nil && !c.IsClosed() {
			return c, nil
		}
		c.discard()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.reset() // the others would not be answered either
		}
	}
}

// fresh connects, and checks that this is still the same store.
func (p *pool) fresh(ctx context.Context, wait time.Duration, epoch uint64) (*conn, error) {
	dialing, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c, err := p.db.dial(dialing, roleReader)
	if err != nil {
		return nil, err
	}
	var found site
	if err = c.exchange(wait, found.call()); err == nil {
		err = p.db.same(found)
	}
	if err != nil {
		c.discard()
		return nil, err
	}
	c.epoch = epoch
	return c, nil
}

// handedOver waits for a connection that another caller puts back, for a while.
func (p *pool) handedOver(ctx context.Context) *conn {
	timer := time.NewTimer(fullPause)
	defer timer.Stop()
	select {
	case c := <-p.freed:
		return c
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

func (p *pool) pop() (*conn, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil, p.epoch
	}
	c := p.idle[0]
	p.idle, p.since = p.idle[1:], p.since[:len(p.idle)-1]
	return c, p.epoch
}

// put gives a connection back, unless it broke or is in a transaction.
func (p *pool) put(c *conn) {
	usable := !c.IsClosed() && (c.ending != nil || c.PgConn().TxStatus() == 'I')
	p.mu.Lock()
	keep := usable && !p.shut && c.epoch == p.epoch && time.Now().Before(c.until)
	if keep {
		c.used = true
		select {
		case p.freed <- c:
		default:
			p.idle, p.since = append(p.idle, c), append(p.since, time.Now())
		}
	}
	p.mu.Unlock()
	if !keep {
		c.discard()
	}
	<-p.slots
}

// reset gives up the connections that exist now.
func (p *pool) reset() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.since = nil, nil
	p.epoch++
	p.mu.Unlock()
	for _, c := range idle {
		c.discard()
	}
}

// trim closes the connections that were not needed for idleMax.
func (p *pool) trim(now time.Time) {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && len(p.slots)+len(p.idle)-n > idleKept && now.Sub(p.since[n]) >= idleMax {
		n++
	}
	unneeded := p.idle[:n]
	p.idle, p.since = p.idle[n:], p.since[n:]
	p.mu.Unlock()
	for _, c := range unneeded {
		c.discard()
	}
}

// shed closes an idle connection, so that the database has room for another.
func (p *pool) shed() {
	if c, _ := p.pop(); c != nil {
		c.discard()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	p.reset()
}

// open returns the number of connections in use and idle.
func (p *pool) open() (used, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.slots), len(p.idle)
}
