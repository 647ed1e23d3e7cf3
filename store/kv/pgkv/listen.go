package pgkv

import (
	"context"
	"encoding/binary"
	"maps"
	"sync"
	"time"
)

const (
	// Notes are joined for notesJoin, and sent at most once every noteEvery.
	notesJoin = 10 * time.Millisecond
	noteEvery = 20 * time.Millisecond
	// notesMax bounds what is sent together, before it is sealed: PostgreSQL takes less than
	// 8000 bytes. More is sent as "look at everything", without a note.
	notesMax = 5800
	// hearPause is between two attempts to listen again.
	hearPause = 200 * time.Millisecond
)

// notes are on their way to the other processes.
type notes struct {
	mu     sync.Mutex
	joined []byte // each with its length
	all    bool   // instead: look at everything
	wake   chan struct{}
	sent   uint64 // payloads
}

func newNotes() *notes { return &notes{wake: make(chan struct{}, 1)} }

// Call is [kv.Caller].
func (db *DB) Call(note []byte) {
	if db.opts.Mute {
		return
	}
	n := db.notes
	n.mu.Lock()
	switch {
	case n.all:
	case note == nil || len(n.joined)+len(note)+binary.MaxVarintLen64 > notesMax:
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

// take returns what is to be sent, if anything, behind its header.
func (n *notes) take(server []byte) (payload []byte, found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.all && len(n.joined) == 0 {
		return nil, false
	}
	n.sent++
	payload = append(payload, server...)
	payload = binary.BigEndian.AppendUint64(payload, n.sent)
	payload = binary.BigEndian.AppendUint64(payload, uint64(time.Now().UnixMilli()))
	payload = append(payload, n.joined...)
	n.joined, n.all = n.joined[:0], false
	return payload, true
}

var (
	beginNote  = statement{"begin note", "begin isolation level read committed read write"}
	quickNote  = statement{"quick note", "set local synchronous_commit = off"} // it may be lost, and nothing else is written
	notify     = statement{"notify", "select pg_notify($1, $2)"}
	commitNote = statement{"commit note", "commit"}
)

// sendNotes sends what Call was given, until ctx is done and the last of it is sent: a command
// exits right after its commits. A note is not part of the commit that it is about:
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

// sendJoined sends what is joined, if anything, also when ctx is done.
func (db *DB) sendJoined(ctx context.Context) {
	payload, found := db.notes.take(db.server)
	if !found {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.opts.wait(connectionWait))
	defer cancel()
	err := db.read(ctx, call{statement: beginNote}, call{statement: quickNote},
		call{statement: notify, params: [][]byte{[]byte(db.address.schema), []byte(db.opts.SealNote(payload))}}, call{statement: commitNote})
	if err == nil {
		db.counts.notes.Add(1)
	}
}

// Hear is [kv.Caller]. Notes may have been missed before a connection began to listen.
func (db *DB) Hear(ctx context.Context, fn func(note []byte)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.life, cancel)()
	h := &hearing{db: db, senders: map[string]sender{}}
	for ctx.Err() == nil {
		h.once(ctx, fn)
		sleep(ctx, hearPause)
	}
}

// hearing takes payloads of servers, each once. Any role that may connect to the database
// can send others, also what it has listened to.
type hearing struct {
	db      *DB
	senders map[string]sender // by the name of the server's handle
	warned  time.Time
	refused int // since then
}

// sender is the last payload of a server.
type sender struct {
	sent uint64
	at   time.Time
}

const (
	headerSize = 32 // who sent it, the number of the payload, and when in Unix milliseconds
	// noteAgeMax is for clocks: one that differs by a minute is refused at the start.
	noteAgeMax = 2 * time.Minute
	warnEvery  = time.Minute
)

// once hears until the connection breaks or has to be replaced.
func (h *hearing) once(ctx context.Context, fn func(note []byte)) {
	dialing, cancel := context.WithTimeout(ctx, h.db.opts.wait(connectionWait))
	defer cancel()
	c, err := h.db.dial(dialing, roleListener)
	if err != nil {
		return
	}
	defer c.discard()
	if _, err := c.Exec(dialing, "listen "+h.db.address.quotedSchema()); err != nil {
		return
	}
	fn(nil)
	ctx, end := context.WithDeadline(ctx, c.until)
	defer end()
	for {
		n, err := c.WaitForNotification(ctx)
		if err != nil {
			return
		}
		joined, ok := h.accept(n.Payload)
		if !ok {
			h.refuse()
			continue
		}
		notesIn(joined, fn)
	}
}

// accept returns the notes of a payload that a server sent lately and that did not arrive
// before: the payloads of one arrive in the order in which they were sent.
func (h *hearing) accept(payload string) (joined []byte, ok bool) {
	plain, ok := h.db.opts.OpenNote(payload)
	if !ok || len(plain) < headerSize {
		return nil, false
	}
	from, header, now := string(plain[:16]), plain[16:headerSize], time.Now()
	s := sender{sent: binary.BigEndian.Uint64(header), at: time.UnixMilli(int64(binary.BigEndian.Uint64(header[8:])))}
	last, known := h.senders[from]
	if now.Sub(s.at).Abs() > noteAgeMax || s.sent <= last.sent {
		return nil, false
	}
	if !known { // a payload older than the age limit is refused without the memory of it
		maps.DeleteFunc(h.senders, func(_ string, s sender) bool { return now.Sub(s.at) > 2*noteAgeMax })
	}
	h.senders[from] = s
	return plain[headerSize:], true
}

// refuse counts a payload that is dropped, and warns of them once a minute.
func (h *hearing) refuse() {
	h.db.counts.notesRefused.Add(1)
	h.refused++
	if time.Since(h.warned) < warnEvery {
		return
	}
	h.db.opts.Log.Warn("notes without the servers' key, or sent again, were dropped", "notes", h.refused,
		"next", "take the right to connect to the database away from other roles: tollhouse doctor; a server of an older release sends such notes too")
	h.warned, h.refused = time.Now(), 0
}

// notesIn passes the notes of a payload on.
func notesIn(joined []byte, fn func(note []byte)) {
	if len(joined) == 0 {
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

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
