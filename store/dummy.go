package store

import (
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// A dummy is decoded in place of a client or user that does not exist. Refusing an unknown
// name must take as long as refusing a known one; otherwise response times would reveal who
// is a client or user. Tokens need none: nobody guesses 256 random bits. BenchmarkEnumeration
// in handlers compares the two. A known client takes some microseconds more when it is used for
// the first time, or if its record is larger than what is kept decoded: ids of clients are public.
const (
	dummyID   = "tollhouse_00000000000000000000000000"
	dummyName = "Unknown client"
	dummyURI  = "https://unknown.example/callback"
	dummyPHC  = "$argon2id$v=19$m=19456,t=2,p=1$0000000000000000000000$0000000000000000000000000000000000000000000"
)

var (
	dummyTime   = time.UnixMilli(1_700_000_000_000)
	dummyClient = encodeClient(Client{
		Name: dummyName, RedirectURIs: []string{dummyURI}, Grants: allGrants, CreatedAt: dummyTime,
		secrets: []clientSecret{{createdAt: dummyTime}},
	})
	dummyAccount = encodeAccount(Account{Name: dummyName, CreatedAt: dummyTime})
	dummyUser    = encodeUser(User{Username: dummyName, Canonical: dummyName, Account: dummyName, CreatedAt: dummyTime, password: dummyPHC})
)

// refuseClient refuses a client that does not exist as slowly as a known one.
func refuseClient(decode func(id string, v []byte) (Client, error)) error {
	_, _ = decode(dummyID, dummyClient) // a test proves that it can be decoded
	return record.ErrNotFound
}

// refuseUser refuses a user name that does not exist as slowly as a known one: it also reads
// two records, like that of a known user, which is read by id, and that of the account. Errors:
// ErrNotFound, the engine's.
func refuseUser(r kv.Reader) error {
	for _, name := range []string{metaStore, metaClients} {
		if _, err := r.Get(record.MetaKey(name)); err != nil && !record.IsAbsent(err) {
			return err
		}
	}
	_, _ = decodeUser(secret.ID{}, dummyUser)
	_, _ = decodeAccountHead("", dummyAccount)
	return record.ErrNotFound
}
