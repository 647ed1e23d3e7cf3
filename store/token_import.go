package store

import (
	"encoding/hex"
	"errors"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// ImportedTokens are the tokens of one authorization as another system kept them. An import makes a
// family of them that is like any other: its first refresh returns a pair of ours.
type ImportedTokens struct {
	ClientID        string
	Username        string        // "" if the client acts for itself
	Scope           Scope         // ScopeUnstated: all data scopes that the client may have
	Access, Refresh ImportedToken // either may be the zero ImportedToken
	CreatedAt       time.Time     // zero for now
}

// ImportedToken is one token: the hash of its text, which is all that is kept of it.
type ImportedToken struct {
	Hash      secret.Hash
	ExpiresAt time.Time // zero for never
}

// readTokens returns the tokens of a line. Errors: *InvalidError.
func readTokens(r *moving.Token) (ImportedTokens, error) {
	given := ImportedTokens{ClientID: r.ClientID, Username: r.Username, CreatedAt: timeAt(r.CreatedAt)}
	access, accessErr := readToken("access_token", r.AccessToken, r.AccessSHA256, r.ExpiresAt)
	refresh, refreshErr := readToken("refresh_token", r.RefreshToken, r.RefreshSHA256, r.RefreshExpiresAt)
	scope, scopeErr := readScope(r.Scope)
	err := errors.Join(accessErr, refreshErr, scopeErr)
	switch {
	case r.ClientID == "":
		err = record.Invalid("client_id", "name the client that has the tokens", "client_id is missing")
	case err == nil && access.Hash.IsZero() && refresh.Hash.IsZero():
		err = record.Invalid("access_token", "give one of them, or leave out the line", "both tokens are missing")
	}
	given.Access, given.Refresh, given.Scope = access, refresh, scope
	return given, err
}

func readToken(member string, text, sha256 *moving.Secret, expiresAt *int64) (t ImportedToken, err error) {
	switch {
	case text != nil:
		token, ok := secret.ParseImported(string(*text))
		if !ok {
			return t, record.Invalid(member, "leave it out: its user consents once more",
				"%s must have 20 to 512 visible ASCII characters and none of tollhouse's prefixes", member)
		}
		t.Hash = token.Hash()
	case sha256 != nil:
		digits, err := hex.DecodeString(string(*sha256))
		if err != nil || len(digits) != len(t.Hash) {
			return t, record.Invalid(member+"_sha256", "give the SHA-256 of the token's text", "%s_sha256 must have 64 hex digits", member)
		}
		t.Hash = secret.Hash(digits)
	}
	t.ExpiresAt = timeAt(expiresAt)
	return t, nil
}

// readScope returns the scope of a line. One without names is refused: it would be all.
func readScope(text *string) (Scope, error) {
	if text == nil {
		return ScopeUnstated, nil
	}
	scope, ok := ParseScope(*text)
	switch {
	case !ok:
		return 0, record.Invalid("scope", "name scopes that tollhouse has", "scope has an unknown name %s", snapshot.Quote(UnknownScope(*text)))
	case scope == ScopeUnstated:
		return 0, record.Invalid("scope", "leave it out for all that the client may have", "scope has no name")
	}
	return scope, nil
}

// timeAt returns the time of Unix seconds, zero for none.
func timeAt(seconds *int64) time.Time {
	if seconds == nil {
		return time.Time{}
	}
	return time.Unix(*seconds, 0).UTC()
}

// importedAccessMax is how long an imported access token lives at most. A refresh token lives as long
// as ours, [Lifetimes].RefreshToken.
const importedAccessMax = 30 * 24 * time.Hour

// tokensOutcome is what an import of one authorization did. The zero tokensOutcome made a family.
type tokensOutcome struct {
	unchanged bool // the texts are those of a family of the same client and user, live or not
	expired   bool // nothing of it is live, so nothing was made
	cut       bool // a token was made that expires sooner than in the other system
}

// Why a line of tokens is refused because of what exists.
var (
	errUnknownClient = &moving.Error{Code: "unknown_client", Param: "token.client_id", Reason: "the client does not exist", Hint: "put the line of the client before this one"}
	errUnknownUser   = &moving.Error{Code: "unknown_user", Param: "token.username", Reason: "the user does not exist", Hint: "put the line of the user before this one"}
	// errTextTaken means that a text is that of another family, or both are the same text.
	errTextTaken = &moving.Error{Code: importConflict, Param: "token", Reason: "a token of this line is one of another authorization, or of another client or user",
		Hint: "leave out the line: tokens are imported once, and not changed"}
)

// importTokens makes a family with that id within tx. Errors: *InvalidError; errUnknownClient,
// errUnknownUser, errTextTaken.
func (s *Store) importTokens(tx kv.Txn, given ImportedTokens, id secret.ID) (o tokensOutcome, err error) {
	l, err := given.lineage(tx)
	if err != nil {
		return tokensOutcome{}, err
	}
	now := s.Now()
	access, refresh, o := s.endHere(given, now)
	known, err := given.areKnown(tx, l, now)
	switch {
	case err != nil:
		return tokensOutcome{}, err
	case known:
		return tokensOutcome{unchanged: true}, nil
	case o.expired:
		return o, nil
	}
	// Tokens of a disabled client, user or account would come alive when it is enabled.
	if _, err = readParties(tx, l); errors.Is(err, record.ErrDisabled) {
		return tokensOutcome{expired: true}, nil
	}
	if err != nil {
		return tokensOutcome{}, err
	}
	f := s.newFamily(l, given.Scope, now, id)
	f.imported = true
	if refresh.IsZero() {
		f.expiresAt = access
	}
	if !given.CreatedAt.IsZero() {
		f.createdAt = earlier(given.CreatedAt, now)
	}
	if err := createFamily(tx, f); err != nil {
		return tokensOutcome{}, err
	}
	if !access.IsZero() {
		err = errors.Join(f.writeAccess(tx, given.Access.Hash, access), keepText(tx, f, given.Access, now))
	}
	if err == nil && !refresh.IsZero() {
		err = errors.Join(f.writeRefresh(tx, given.Refresh.Hash, refresh), keepText(tx, f, given.Refresh, now))
	}
	return o, err
}

// endHere returns when each token expires here, zero if it is not live.
func (s *Store) endHere(given ImportedTokens, now time.Time) (access, refresh time.Time, o tokensOutcome) {
	access, accessCut := given.Access.endsHere(now, importedAccessMax)
	refresh, refreshCut := given.Refresh.endsHere(now, s.Lifetimes().RefreshToken)
	return access, refresh, tokensOutcome{expired: access.IsZero() && refresh.IsZero(), cut: accessCut || refreshCut}
}

// writeAccess stores an access token that a new family begins with.
func (f family) writeAccess(tx kv.Txn, h secret.Hash, ends time.Time) error {
	return writeAccessToken(tx, accessToken{lineage: f.lineage, hash: h, family: f.id, scope: f.scope, issuedAt: f.createdAt, expiresAt: ends})
}

// writeRefresh stores a refresh token that a new family begins with.
func (f family) writeRefresh(tx kv.Txn, h secret.Hash, ends time.Time) error {
	return writeRefreshToken(tx, refreshToken{hash: h, family: f.id, scope: f.scope, expiresAt: ends}, f.expiresAt)
}

// lineage returns whom the tokens are for, with the generations of now.
func (given ImportedTokens) lineage(r kv.Reader) (lineage, error) {
	c, err := readClient(r, given.ClientID)
	switch {
	case record.IsAbsent(err):
		return lineage{}, errUnknownClient
	case err != nil:
		return lineage{}, err
	case c.Platform:
		return lineage{}, record.Invalid("client_id", "it gets one with its secret", "tokens of a platform client are not imported")
	case given.Scope&ScopePlatform != 0:
		return lineage{}, record.Invalid("scope", "leave it out", "scope has one that only platform clients have")
	case given.Username == "" && (c.Account == "" || !c.Allows(GrantClientCredentials)):
		return lineage{}, record.Invalid("username", "name the user who gave the tokens", "username is missing, and the client does not act for itself")
	case given.Username == "" && !given.Refresh.Hash.IsZero():
		return lineage{}, record.Invalid("refresh_token", "leave it out", "a client that acts for itself has no refresh token")
	}
	if given.Username == "" {
		a, err := readAccountHead(r, c.Account)
		return lineageOf(c, User{Account: c.Account, accountNow: a}), record.GoneIsNil(err)
	}
	u, err := readUserNamed(r, given.Username)
	if record.IsAbsent(err) {
		return lineage{}, errUnknownUser
	}
	return lineageOf(c, u), err
}

// endsHere returns when a token expires here, zero if it is not live, and whether that is sooner
// than in the other system.
func (t ImportedToken) endsHere(now time.Time, lifetimeMax time.Duration) (ends time.Time, cut bool) {
	most := now.Add(lifetimeMax)
	switch {
	case t.isEnded(now):
		return time.Time{}, false
	case t.ExpiresAt.IsZero() || t.ExpiresAt.After(most):
		return most, true
	}
	return t.ExpiresAt, false
}

// isEnded reports whether there is no token, or one that has expired in the other system.
func (t ImportedToken) isEnded(now time.Time) bool {
	return t.Hash.IsZero() || !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

// areKnown reports whether the tokens are those of one family of the client and user of l. One that
// has ended need not be known. Errors: errTextTaken if only some are, or another family has one.
func (given ImportedTokens) areKnown(r kv.Reader, l lineage, now time.Time) (known bool, err error) {
	if !given.Access.Hash.IsZero() && given.Access.Hash.Equal(given.Refresh.Hash) {
		return false, errTextTaken
	}
	var first tokenText
	isNew := false
	for _, t := range []ImportedToken{given.Access, given.Refresh} {
		if t.Hash.IsZero() {
			continue
		}
		text, err := readText(r, t.Hash)
		switch {
		case record.IsAbsent(err):
			isNew = isNew || !t.isEnded(now)
		case err != nil:
			return false, err
		case text.party != l.party(), known && text != first:
			return false, errTextTaken
		default:
			known, first = true, text
		}
	}
	if known && isNew {
		return false, errTextTaken
	}
	return known, nil
}
