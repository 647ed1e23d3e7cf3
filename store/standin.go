package store

import (
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// standIn is a record that is read and decoded in place of a missing one and of those
// that it would refer to. Refusing an unknown id must take as long as refusing a
// foreign or expired one; otherwise response times would reveal which ids exist.
// BenchmarkEnumeration in handlers compares the two.
type standIn struct {
	record []byte
	decode func(record []byte) error
}

const (
	standInID   = "tollhouse_00000000000000000000000000"
	standInName = "Unknown client"
	standInURI  = "https://unknown.example/callback"
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

// refuseAbsent refuses a missing record as slowly as an existing one. The first
// stand-in replaces the record, the others those that it would refer to. Errors:
// ErrNotFound, the engine's.
func refuseAbsent(r kv.Reader, standIns ...standIn) error {
	for _, s := range standIns {
		if _, err := r.Get(record.MetaKey(metaStore)); err != nil && !record.IsAbsent(err) {
			return err
		}
		s.take()
	}
	return record.ErrNotFound
}

// take decodes the record and drops it. A test proves that it is valid.
func (s standIn) take() { _ = s.decode(s.record) }
