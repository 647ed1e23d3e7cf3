package pgkv

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"
)

const (
	// Notes are joined for notesJoin, and sent noteEvery at the soonest.
	notesJoin = 10 * time.Millisecond
	noteEvery = 20 * time.Millisecond
	// notesMax bounds what is sent at once: PostgreSQL takes less than 8000 bytes. More
	// is sent as "look at everything", an empty payload.
	notesMax = 7900
	// hearPause is between two attempts to listen again.
	hearPause = 200 * time.Millisecond
)

// notes are on their way to the other processes.
type notes struct {
	mu     sync.Mutex
	joined []byte // each with its length
	all    bool   // instead: look at everything
	wake   chan struct{}
}

func newNotes() *notes { return &notes{wake: make(chan struct{}, 1)} }

// Call is [kv.Caller].
func (db *DB) Call(note []byte) {
	n := db.notes
	n.mu.Lock()
	switch {
	case n.all:
	case note == nil || base64.StdEncoding.EncodedLen(len(n.joined)+len(note)+binary.MaxVarintLen64) > notesMax:
		n.joined, n.all = n.joined[:0], true
	default:
		n.joined = append(binary.AppendUvarint(n.joined, uint64(len(note))), note...)
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take returns what is to be sent, if anything.
func (n *notes) take() (payload string, found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found = n.all || len(n.joined) > 0
	payload = base64.StdEncoding.EncodeToString(n.joined)
	n.joined, n.all = n.joined[:0], false
	return payload, found
}

var (
	beginNote  = statement{"begin note", "begin isolation level read committed read write"}
	quickNote  = statement{"quick note", "set local synchronous_commit = off"} // it may be lost, and nothing else is written
	notify     = statement{"notify", "select pg_notify('tollhouse', $1)"}
	commitNote = statement{"commit note", "commit"}
)

// sendNotes sends what Call was given, until ctx ends and the last of it is sent: a command
// ends right behind its commits. A note is not part of the commit that it tells of:
// PostgreSQL commits those with notes one after another.
func (db *DB) sendNotes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			db.sendJoined(ctx)
			return
		case <-db.notes.wake:
		}
		begun := time.Now()
		sleep(ctx, notesJoin)
		db.sendJoined(ctx)
		sleep(ctx, noteEvery-time.Since(begun))
	}
}

// sendJoined sends what is joined, if anything, also when ctx has ended.
func (db *DB) sendJoined(ctx context.Context) {
	payload, found := db.notes.take()
	if !found {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.opts.wait(connectionWait))
	defer cancel()
	err := db.read(ctx, call{statement: beginNote}, call{statement: quickNote},
		call{statement: notify, params: [][]byte{[]byte(payload)}}, call{statement: commitNote})
	if err == nil {
		db.counts.notes.Add(1)
	}
}

// Hear is [kv.Caller]. Notes may have been missed before a connection began to listen.
func (db *DB) Hear(ctx context.Context, fn func(note []byte)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.life, cancel)()
	for ctx.Err() == nil {
		db.hearOnce(ctx, fn)
		sleep(ctx, hearPause)
	}
}

// hearOnce hears until the connection breaks.
func (db *DB) hearOnce(ctx context.Context, fn func(note []byte)) {
	dialing, cancel := context.WithTimeout(ctx, db.opts.wait(connectionWait))
	defer cancel()
	c, err := db.dial(dialing, roleLasting)
	if err != nil {
		return
	}
	defer c.discard()
	if _, err := c.Exec(dialing, "listen tollhouse"); err != nil {
		return
	}
	fn(nil)
	for {
		n, err := c.WaitForNotification(ctx)
		if err != nil {
			return
		}
		notesIn(n.Payload, fn)
	}
}

// notesIn passes the notes of a payload on.
func notesIn(payload string, fn func(note []byte)) {
	joined, err := base64.StdEncoding.DecodeString(payload)
	if err != nil || len(joined) == 0 {
		fn(nil)
		return
	}
	for len(joined) > 0 {
		size, n := binary.Uvarint(joined)
		if n <= 0 || size > uint64(len(joined)-n) {
			fn(nil) // from another version
			return
		}
		end := n + int(size)
		fn(joined[n:end:end])
		joined = joined[end:]
	}
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
