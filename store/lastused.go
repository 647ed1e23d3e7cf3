package store

import (
	"context"
	"sync"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// lastUsed collects in memory what reads record: that a token or session was used. A
// read never waits for it; Run writes it in batches. A crash loses the latest uses, so
// that the next use counts as the first.
type lastUsed struct {
	mu         sync.Mutex
	tokens     map[secret.Hash]secret.Hash // token → the spent refresh token that its use confirms
	sessions   map[secret.Hash]struct{}
	confirming map[secret.Hash]int // tokens with a confirmation not yet committed
	wake       chan struct{}
	flushing   sync.Mutex // held while uses are written
}

const (
	lastUsedMax      = 1 << 16 // uses in memory; further ones are not recorded
	lastUsedBatchMax = 150     // uses in one Update, six records each at most
)

func (m *lastUsed) init() {
	m.tokens, m.sessions, m.confirming = map[secret.Hash]secret.Hash{}, map[secret.Hash]struct{}{}, map[secret.Hash]int{}
	m.wake = make(chan struct{}, 1)
}

// tokenUsed records the use of a token. The spent refresh token that it confirms
// counts as confirmed from now on, stored or not.
func (m *lastUsed) tokenUsed(token, confirms secret.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, noted := m.tokens[token]; noted || len(m.tokens) >= lastUsedMax {
		return
	}
	m.tokens[token] = confirms
	if !confirms.IsZero() {
		m.confirming[token]++
	}
	m.signal()
}

func (m *lastUsed) sessionSeen(session secret.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sessions) >= lastUsedMax {
		return
	}
	m.sessions[session] = struct{}{}
	m.signal()
}

func (m *lastUsed) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// isConfirming reports whether a use of the token that confirms its pair is recorded
// but not yet stored. It goes by the token, because a late use of a replaced one says
// nothing about the new pair.
func (m *lastUsed) isConfirming(token secret.Hash) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.confirming[token] > 0
}

// take removes up to a batch of uses and returns them. Their confirmations stay
// visible until done.
func (m *lastUsed) take() (tokens map[secret.Hash]secret.Hash, sessions []secret.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tokens = map[secret.Hash]secret.Hash{}
	for access, confirms := range m.tokens {
		if len(tokens) == lastUsedBatchMax {
			break
		}
		tokens[access] = confirms
		delete(m.tokens, access)
	}
	for session := range m.sessions {
		if len(tokens)+len(sessions) >= lastUsedBatchMax {
			break
		}
		sessions = append(sessions, session)
		delete(m.sessions, session)
	}
	return tokens, sessions
}

func (m *lastUsed) done(tokens map[secret.Hash]secret.Hash) {
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

// Run writes recorded uses and queued audit lines until ctx is done, and then the
// remaining ones, and what was counted for the audit log. It also keeps the counts of
// requests up to date.
func (s *Store) Run(ctx context.Context) error {
	// A cancelled ctx must not lose a batch that is being written.
	write := context.WithoutCancel(ctx)
	var counting sync.WaitGroup
	counting.Go(func() { s.Events.RunWatches(ctx) })
	counting.Go(func() { s.ring.Run(ctx) })
	defer counting.Wait()
	retry := time.NewTicker(auditRetryEvery)
	defer retry.Stop()
	for {
		select {
		case <-s.lastUsed.wake:
			s.FlushLastUsed(write)
			_ = s.flushAudit(write) // logged there, and tried again
		case <-retry.C:
			if s.audits.tick(s.Now()) {
				_ = s.flushAudit(write)
			}
		case <-ctx.Done():
			s.FlushLastUsed(write)
			s.endAudit(write)
			return nil
		}
	}
}

// Flush writes what was recorded in memory: uses, lines of the audit record, and what was
// counted for it. What Run is writing is written, too, when it returns.
func (s *Store) Flush(ctx context.Context) {
	s.FlushLastUsed(ctx)
	_ = s.flushAll(ctx)
}

// FlushLastUsed writes the recorded uses. A batch that cannot be written is dropped
// and logged, as a crash would drop it.
func (s *Store) FlushLastUsed(ctx context.Context) {
	s.lastUsed.flushing.Lock()
	defer s.lastUsed.flushing.Unlock()
	for {
		tokens, sessions := s.lastUsed.take()
		if len(tokens)+len(sessions) == 0 {
			return
		}
		if err := s.writeLastUsed(ctx, tokens, sessions); err != nil {
			s.log.Warn("last uses not written", "count", len(tokens)+len(sessions), "err", err)
		}
		s.lastUsed.done(tokens)
	}
}

func (s *Store) writeLastUsed(ctx context.Context, tokens map[secret.Hash]secret.Hash, sessions []secret.Hash) error {
	now := s.Now()
	ctx = s.naming(ctx, func() (keys [][]byte) {
		for token, confirms := range tokens {
			keys = append(keys, s.recent.keysOfUse(token, confirms)...)
		}
		for _, session := range sessions {
			keys = append(keys, record.SessionKey(session))
		}
		return keys
	})
	return record.UpdateAs(ctx, s.db, kv.Access, func(tx kv.Txn) error {
		for token := range tokens {
			if err := record.GoneIsNil(recordTokenUse(tx, token, now)); err != nil {
				return err
			}
		}
		for _, session := range sessions {
			if err := recordSessionSeen(tx, session, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// recordTokenUse stores the use of a token in its family, for its client and, if it is
// the first, in the refresh token whose rotation made it. Errors: one that is absent
// (record.IsAbsent) if the token is no longer valid; then it has written nothing.
func recordTokenUse(tx kv.Txn, token secret.Hash, now time.Time) error {
	t, err := readAccessToken(tx, token)
	if record.IsAbsent(err) {
		return recordRefreshUse(tx, token, now)
	}
	if err != nil {
		return err
	}
	f, err := recordFamilyUse(tx, t.family, now)
	if err != nil {
		return err
	}
	return confirm(tx, t, f)
}

// recordRefreshUse is recordTokenUse for a refresh token. The use of a retired one
// says nothing about the pair that replaced it.
func recordRefreshUse(tx kv.Txn, token secret.Hash, now time.Time) error {
	t, err := readRefreshToken(tx, token)
	if err == nil && !t.retiredAt.IsZero() {
		err = record.ErrNotFound
	}
	if err != nil {
		return err
	}
	f, err := recordFamilyUse(tx, t.family, now)
	if err != nil {
		return err
	}
	return confirmSpent(tx, t.parent, f)
}

func recordFamilyUse(tx kv.Txn, id secret.ID, now time.Time) (family, error) {
	f, err := readFamily(tx, id)
	if err != nil {
		return family{}, err
	}
	if err := recordClientUse(tx, f.client, now); err != nil {
		return family{}, err
	}
	if f.imported && f.usedAt.IsZero() {
		if err := partiesUsed(tx, f.lineage); err != nil {
			return family{}, err
		}
	}
	f.usedAt = later(f.usedAt, now)
	return f, writeFamily(tx, f)
}

func confirm(tx kv.Txn, t accessToken, f family) error {
	if t.confirms.IsZero() {
		return nil
	}
	if err := confirmSpent(tx, t.confirms, f); err != nil {
		return err
	}
	t.confirms = secret.Hash{}
	return writeAccessToken(tx, t)
}

// confirmSpent stores in a spent refresh token, if it exists, that its pair was used.
func confirmSpent(tx kv.Txn, h secret.Hash, f family) error {
	if h.IsZero() {
		return nil
	}
	spent, err := readRefreshToken(tx, h)
	if err != nil {
		return record.GoneIsNil(err)
	}
	spent.confirmed = true
	return writeRefreshToken(tx, spent, f.expiresAt)
}

func recordSessionSeen(tx kv.Txn, session secret.Hash, now time.Time) error {
	sn, err := readSession(tx, session)
	if err != nil {
		return record.GoneIsNil(err)
	}
	sn.SeenAt = later(sn.SeenAt, now)
	return writeSession(tx, sn)
}
