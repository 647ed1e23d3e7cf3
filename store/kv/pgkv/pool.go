package pgkv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"tollhouse/store/kv"
)

// pool keeps the connections of readers.
type pool struct {
	db    *DB
	slots chan struct{} // one for each connection in use

	mu    sync.Mutex
	idle  []*conn // the one that is idle longest is used first: its rollback has finished
	epoch uint64  // older connections are not used again
	shut  bool
}

func newPool(db *DB) *pool { return &pool{db: db, slots: make(chan struct{}, db.opts.Connections)} }

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
			return p.fresh(ctx, left, epoch)
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

func (p *pool) fresh(ctx context.Context, wait time.Duration, epoch uint64) (*conn, error) {
	dialing, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c, err := p.db.dial(dialing, roleReader)
	if err != nil {
		<-p.slots
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, p.db.unavailable(err)
	}
	c.epoch = epoch
	return c, nil
}

func (p *pool) pop() (*conn, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil, p.epoch
	}
	c := p.idle[0]
	p.idle = p.idle[1:]
	return c, p.epoch
}

// put gives a connection back, unless it broke or is in a transaction.
func (p *pool) put(c *conn) {
	usable := !c.IsClosed() && (c.ending != nil || c.PgConn().TxStatus() == 'I')
	p.mu.Lock()
	keep := usable && !p.shut && c.epoch == p.epoch
	if keep {
		c.used = true
		p.idle = append(p.idle, c)
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
	p.idle = nil
	p.epoch++
	p.mu.Unlock()
	for _, c := range idle {
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
