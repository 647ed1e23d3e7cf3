package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// accessToken is the stored form of an access token.
type accessToken struct {
	lineage
	hash      secret.Hash
	family    secret.ID
	scope     Scope
	issuedAt  time.Time
	expiresAt time.Time
	// confirms is the refresh token whose rotation made this token. The first use
	// proves that the answer arrived, and clears it.
	confirms secret.Hash
}

// Principal is the client and user that an access token represents. Without a user, the
// client acts for itself.
type Principal struct {
	Account    string // "" for a platform client that acts for none yet; see ActFor
	UserID     string // the user's Subject
	Username   string
	ClientID   string
	ClientName string
	Scope      Scope
	Platform   bool // of a platform client
	IssuedAt   time.Time
	ExpiresAt  time.Time

	acting   bool  // by ActFor
	narrowed Scope // the client's current scope
	amr      Amr   // only if the whole family was read
	token    secret.Hash
	family   secret.ID

	clientGeneration, userGeneration uint64
}

// Allows reports whether the token gives every permission in need. It also checks the
// client's current scope, which may have been narrowed since.
func (p Principal) Allows(need Scope) bool { return p.Scope.Covers(need) && p.narrowed.Covers(need) }

// Permissions returns what the token gives now.
func (p Principal) Permissions() Scope { return p.Scope.Effective() & p.narrowed.Effective() }

const accessTokenRecord = 1

// FindPrincipal returns the principal of a valid access token. It reads the token, its
// family, its client and its user in one snapshot of the store, so a revocation holds
// from the next request on. The use is recorded in the background, except the first on
// an engine that several processes share. Errors: ErrNotFound for every reason, the
// engine's.
func (s *Store) FindPrincipal(ctx context.Context, token secret.Token) (Principal, error) {
	p, used, err := s.findPrincipal(ctx, token, decodeFamilyHead)
	if err == nil {
		err = s.noteUse(ctx, used)
	}
	if err != nil {
		return Principal{}, fmt.Errorf("find principal: %w", err)
	}
	return p, nil
}

// tokenUse is what to record about one use of a token.
type tokenUse struct {
	at              time.Time
	token, confirms secret.Hash
	familyUsedAt    time.Time
}

// noteUse records a use: always the first of a pair, then one in seenEvery. Other
// processes do not see what this one has in memory and would replace the pair. So on a
// shared engine the first use is stored before it is answered; a token that was replaced
// in the meantime is ErrNotFound.
func (s *Store) noteUse(ctx context.Context, u tokenUse) error {
	if s.isShared && !u.confirms.IsZero() {
		ctx = s.naming(ctx, func() [][]byte { return s.recent.keysOfUse(u.token, u.confirms) })
		return record.UpdateAs(ctx, s.db, kv.Access, func(tx kv.Txn) error { return record.Found(recordTokenUse(tx, u.token, u.at)) })
	}
	if !u.confirms.IsZero() || u.at.Sub(u.familyUsedAt) >= seenEvery {
		s.lastUsed.tokenUsed(u.token, u.confirms)
	}
	return nil
}

func (s *Store) findPrincipal(ctx context.Context, token secret.Token, decode familyDecoder) (p Principal, used tokenUse, err error) {
	now, hash := s.Now(), token.Hash()
	next := s.recent.readNext(ctx, hash)
	err = s.db.View(ctx, func(r kv.Reader) error {
		if len(next) > 0 {
			kv.Prefetch(r, append(next, append(s.recent.keysOf(hash), record.AccessTokenKey(hash))...))
		}
		p, used, err = s.readPrincipal(r, hash, now, decode)
		return err
	})
	if err != nil {
		return Principal{}, tokenUse{}, goneIsNotFound(err)
	}
	return p, used, nil
}

// readPrincipal returns whom a token acts for, and the use to record. goneIsNotFound maps its
// errors. The decoder is decodeFamilyHead unless more of the family is asked for. From a remote
// engine it reads the head of the account's log too, which most requests read next.
func (s *Store) readPrincipal(r kv.Reader, hash secret.Hash, now time.Time, decode familyDecoder) (Principal, tokenUse, error) {
	remote, isRemote := r.(kv.Prefetcher)
	if isRemote {
		remote.Prefetch(append(s.recent.keysOf(hash), record.AccessTokenKey(hash)))
	}
	t, err := readAccessToken(r, hash)
	if err != nil {
		return Principal{}, tokenUse{}, err
	}
	if isRemote {
		k := kin{t.family, t.lineage}
		remote.Prefetch(k.keys())
		s.recent.noteToken(hash, k)
	}
	f, err := record.Read(r, record.FamilyKey(t.family), t.family, decode)
	if err != nil {
		return Principal{}, tokenUse{}, err
	}
	if !now.Before(t.expiresAt) || !f.revokedAt.IsZero() || !now.Before(f.expiresAt) {
		return Principal{}, tokenUse{}, record.ErrNotFound
	}
	p, err := readParties(r, t.lineage)
	if err != nil {
		return Principal{}, tokenUse{}, err
	}
	principal := Principal{
		Account: t.account, UserID: p.user.Subject(), Username: p.user.Username,
		ClientID: p.client.ID, ClientName: p.client.Name,
		Scope: t.scope, Platform: p.client.Platform, IssuedAt: t.issuedAt, ExpiresAt: t.expiresAt, narrowed: p.client.Scope, token: t.hash,
		amr: f.amr, family: t.family, clientGeneration: t.clientGeneration, userGeneration: t.userGeneration,
	}
	return principal, tokenUse{at: now, token: t.hash, confirms: t.confirms, familyUsedAt: f.usedAt}, nil
}

// LiveIn checks the token of a principal again within a transaction: it may become invalid or lose
// scopes while the transaction waits for its turn, and the account that a platform client acts for
// may be erased. allows returns why the token, as it is now, does not allow the change; nil allows
// it. Errors: ErrRevoked if the token is no longer valid, that of allows, ErrUnknownAccount. Without
// an error the account of the principal exists.
func (s *Store) LiveIn(p Principal, allows func(now Principal) error) func(r kv.Reader) error {
	return func(r kv.Reader) error {
		now, _, err := s.readPrincipal(r, p.token, s.Now(), decodeFamilyHead)
		if err = goneIsNotFound(err); errors.Is(err, record.ErrNotFound) {
			return record.ErrRevoked
		}
		if err == nil && allows != nil {
			err = allows(now)
		}
		if err != nil || !p.acting {
			return err
		}
		_, err = knownAccount(r, p.Account)
		return err
	}
}

// Naming names to [kv.Naming] what LiveIn reads.
func (s *Store) Naming(ctx context.Context, p Principal) context.Context {
	return s.naming(ctx, func() [][]byte {
		keys := append(s.recent.keysOf(p.token), record.AccessTokenKey(p.token))
		if p.acting {
			keys = append(keys, record.AccountKey(p.Account))
		}
		return keys
	})
}

// ActFor returns the principal of a platform client that acts for an account. It creates
// none. Errors: ErrUnknownAccount.
func (s *Store) ActFor(ctx context.Context, p Principal, account string) (Principal, error) {
	if !p.Platform || p.Account != "" {
		panic("store: only a token for all accounts can act for one")
	}
	err := s.db.View(ctx, func(r kv.Reader) error {
		_, err := knownAccount(r, account)
		return err
	})
	if err != nil {
		return Principal{}, fmt.Errorf("act for an account: %w", err)
	}
	p.Account, p.acting = account, true
	return p, nil
}

// knownAccount returns the head of an account. Errors: ErrUnknownAccount if it does not exist or is
// being erased.
func knownAccount(r kv.Reader, id string) (Account, error) {
	if record.CheckAccountID(id) != nil {
		return Account{}, ErrUnknownAccount
	}
	a, err := readAccountHead(r, id)
	if record.IsAbsent(err) || err == nil && !a.erasedSince.IsZero() {
		err = ErrUnknownAccount
	}
	return a, err
}

// familyName is a family's id as the logs show it.
func familyName(id secret.ID) string { return string(secret.AppendCrockford([]byte(familyPrefix), id)) }

const familyPrefix = "fam_"

func readAccessToken(r kv.Reader, h secret.Hash) (accessToken, error) {
	return record.Read(r, record.AccessTokenKey(h), h, decodeAccessToken)
}

func writeAccessToken(tx kv.Txn, t accessToken) error {
	return tx.Set(record.AccessTokenKey(t.hash), encodeAccessToken(t), t.expiresAt)
}

func encodeAccessToken(t accessToken) []byte {
	return encodeLineage(record.NewEncoder(accessTokenRecord).ID(t.family), t.lineage).Uint(uint64(t.scope)).Time(t.issuedAt).
		Time(t.expiresAt).Hash(t.confirms).B
}

func decodeAccessToken(h secret.Hash, v []byte) (accessToken, error) {
	d := record.NewDecoder("access token", accessTokenRecord, v)
	t := accessToken{hash: h, family: d.ID(), lineage: decodeLineage(&d), scope: decodeScope(&d), issuedAt: d.Time(), expiresAt: d.Time(), confirms: d.Hash()}
	return t, d.Done()
}

func goneIsNotFound(err error) error {
	if errors.Is(err, record.ErrDisabled) { // an engine may wrap the transaction's error
		return record.ErrNotFound
	}
	return err
}
