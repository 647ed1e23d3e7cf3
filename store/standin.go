package store

import (
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// standIn is a record of nobody. To refuse what is not there must take as long
// as to refuse what is there and another's, or dead: whoever asks could tell one
// from the other by the clock (attacks 18 and 67). So stand-ins are read and
// decoded in place of a record that is absent and of those that it would have
// led to. BenchmarkEnumeration in handlers holds the two side by side.
type standIn struct {
	record []byte
	decode func(record []byte) error
}

const (
	standInID   = "tollhouse_00000000000000000000000000"
	standInName = "Nobody in particular"
	standInURI  = "https://nobody.example/callback"
	standInPHC  = "$argon2id$v=19$m=19456,t=2,p=1$0000000000000000000000$0000000000000000000000000000000000000000000"
)

var (
	standInTime    = time.UnixMilli(1_700_000_000_000)
	standInLineage = lineage{client: standInID, clientGeneration: 1, userGeneration: 1, account: standInName}

	standInClient = standIn{
		record: encodeClient(Client{
			Name: standInName, RedirectURIs: []string{standInURI}, Grants: allGrants, CreatedAt: standInTime,
			secrets: []clientSecret{{createdAt: standInTime}},
		}),
		decode: func(record []byte) error { _, err := decodeClient(standInID, record); return err },
	}
	standInClientHead = standIn{
		record: standInClient.record,
		decode: func(record []byte) error { _, err := decodeClientHead(standInID, record); return err },
	}
	standInUser = standIn{
		record: encodeUser(User{Username: standInName, Canonical: standInName, Account: standInName, CreatedAt: standInTime, password: standInPHC}),
		decode: func(record []byte) error { _, err := decodeUser(secret.ID{}, record); return err },
	}
	standInUserHead = standIn{
		record: standInUser.record,
		decode: func(record []byte) error { _, err := decodeUserHead(secret.ID{}, record); return err },
	}
	standInFamily = standIn{
		record: encodeFamily(family{lineage: standInLineage, createdAt: standInTime, expiresAt: standInTime}),
		decode: func(record []byte) error { _, err := decodeFamily(secret.ID{}, record); return err },
	}
	standInAccessToken = standIn{
		record: encodeAccessToken(accessToken{lineage: standInLineage, issuedAt: standInTime, expiresAt: standInTime}),
		decode: func(record []byte) error { _, err := decodeAccessToken(secret.Hash{}, record); return err },
	}
	standInRefreshToken = standIn{
		record: encodeRefreshToken(refreshToken{expiresAt: standInTime}),
		decode: func(record []byte) error { _, err := decodeRefreshToken(secret.Hash{}, record); return err },
	}
)

// refuseAbsent refuses what r does not have as slowly as if it had: the first
// stand-in is for the record that was looked for, the others are for those that
// it would have led to. Errors: ErrNotFound, the engine's.
func refuseAbsent(r kv.Reader, standIns ...standIn) error {
	for _, s := range standIns {
		if _, err := r.Get(metaKey(metaStore)); err != nil && !isAbsent(err) {
			return err
		}
		s.take()
	}
	return ErrNotFound
}

// take decodes the record, which a test has seen to be whole, and forgets it.
func (s standIn) take() { _ = s.decode(s.record) }
