package store

import (
	"context"
	"sync"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// marks are the notes that reads leave behind: that a token was used, that a
// session was seen. A read never waits for them. They are gathered in memory
// and written by Run, a batch at a time; one that a crash loses only means that
// the next use is taken for the first.
type marks struct {
	mu         sync.Mutex
	tokens     map[secret.Hash]secret.Hash // access token → the refresh token that its use confirms
	sessions   map[secret.Hash]struct{}
	confirming map[secret.Hash]int // access tokens with a confirmation not yet committed
	wake       chan struct{}
}

const (
	marksMax      = 1 << 16 // notes in memory; past that a use is not noted
	marksBatchMax = 150     // notes written in one Update, three records each
)

func (m *marks) init() {
	m.tokens, m.sessions, m.confirming = map[secret.Hash]secret.Hash{}, map[secret.Hash]struct{}{}, map[secret.Hash]int{}
	m.wake = make(chan struct{}, 1)
}

// tokenUsed notes the use of an access token. From this moment on the refresh
// token that it confirms counts as confirmed, committed or not.
func (m *marks) tokenUsed(access, confirms secret.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, noted := m.tokens[access]; noted || len(m.tokens) >= marksMax {
		return
	}
	m.tokens[access] = confirms
	if !confirms.IsZero() {
		m.confirming[access]++
	}
	m.signal()
}

func (m *marks) sessionSeen(session secret.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sessions) >= marksMax {
		return
	}
	m.sessions[session] = struct{}{}
	m.signal()
}

func (m *marks) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// isConfirming reports whether a use of the access token that confirms the pair
// it came in is noted and not yet committed. It goes by the access token: a late
// note of one that was replaced says nothing of the pair that replaced it.
func (m *marks) isConfirming(access secret.Hash) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.confirming[access] > 0
}

// take removes at most a batch of notes and returns them. Their confirmations
// stay visible until done is called.
func (m *marks) take() (tokens map[secret.Hash]secret.Hash, sessions []secret.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tokens = map[secret.Hash]secret.Hash{}
	for access, confirms := range m.tokens {
		if len(tokens) == marksBatchMax {
			break
		}
		tokens[access] = confirms
		delete(m.tokens, access)
	}
	for session := range m.sessions {
		if len(tokens)+len(sessions) >= marksBatchMax {
			break
		}
		sessions = append(sessions, session)
		delete(m.sessions, session)
	}
	return tokens, sessions
}

func (m *marks) done(tokens map[secret.Hash]secret.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for access, confirms := range tokens {
		if confirms.IsZero() {
			continue
		}
		if m.confirming[access]--; m.confirming[access] <= 0 {
			delete(m.confirming, access)
		}
	}
}

// Run writes the notes that reads leave behind, and the audit lines that wait,
// until ctx is done, and then those that are left.
func (s *Store) Run(ctx context.Context) error {
	// A batch in the middle of being written would be lost with ctx.
	write := context.WithoutCancel(ctx)
	for {
		select {
		case <-s.marks.wake:
			s.FlushMarks(write)
			s.flushAudit(write)
		case <-ctx.Done():
			s.FlushMarks(write)
			s.flushAudit(write)
			return nil
		}
	}
}

// FlushMarks writes the notes that wait. A batch that cannot be written is
// dropped, as a crash would drop it, and the log says so.
func (s *Store) FlushMarks(ctx context.Context) {
	for {
		tokens, sessions := s.marks.take()
		if len(tokens)+len(sessions) == 0 {
			return
		}
		if err := s.writeMarks(ctx, tokens, sessions); err != nil {
			s.log.Warn("uses not noted", "count", len(tokens)+len(sessions), "err", err)
		}
		s.marks.done(tokens)
	}
}

func (s *Store) writeMarks(ctx context.Context, tokens map[secret.Hash]secret.Hash, sessions []secret.Hash) error {
	now := s.Now()
	return s.db.Update(ctx, func(tx kv.Txn) error {
		for access := range tokens {
			if err := markToken(tx, access, now); err != nil {
				return err
			}
		}
		for _, session := range sessions {
			if err := markSession(tx, session, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// markToken notes the use of an access token on its family and, when it is the
// first, on the refresh token whose rotation made it.
func markToken(tx kv.Txn, access secret.Hash, now time.Time) error {
	t, err := readAccessToken(tx, access)
	if err != nil {
		return goneIsNil(err) // revoked or retired meanwhile
	}
	f, err := readFamily(tx, t.family)
	if err != nil {
		return goneIsNil(err)
	}
	f.usedAt = now
	if err := writeFamily(tx, f); err != nil {
		return err
	}
	return confirm(tx, t, f)
}

func confirm(tx kv.Txn, t accessToken, f family) error {
	if t.confirms.IsZero() {
		return nil
	}
	spent, err := readRefreshToken(tx, t.confirms)
	if err != nil {
		return goneIsNil(err)
	}
	spent.confirmed = true
	if err := writeRefreshToken(tx, spent, f.expiresAt); err != nil {
		return err
	}
	t.confirms = secret.Hash{}
	return writeAccessToken(tx, t)
}

func goneIsNil(err error) error {
	if isAbsent(err) {
		return nil
	}
	return err
}

func markSession(tx kv.Txn, session secret.Hash, now time.Time) error {
	sn, err := readSession(tx, session)
	if err != nil {
		return goneIsNil(err)
	}
	sn.SeenAt = now
	return writeSession(tx, sn)
}
