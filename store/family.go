package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Reasons for which a family was revoked, as the log and the audit name them.
const (
	ReasonCodeReplayed    = "code_replayed"
	ReasonRefreshReused   = "refresh_reused"
	ReasonRetiredReplayed = "retired_refresh_used"
	ReasonRevokedByClient = "revoked_by_client"
	ReasonRevokedByUser   = "revoked_by_user"

	ReasonRevokedByOperator = "revoked_by_operator"
)

// lineage says for whom tokens are: the client and user, their generations at
// the time of the authorization, and the account. Codes, families and access
// tokens carry it. Counters, not clocks: a clock may step back or stand still.
type lineage struct {
	client           string
	clientGeneration uint64
	user             secret.ID
	userGeneration   uint64
	account          string
}

// family is all the tokens that descend from one authorization. Revoking it is
// one write, and ends them all.
type family struct {
	lineage
	id        secret.ID
	scope     Scope
	createdAt time.Time
	usedAt    time.Time
	expiresAt time.Time
	revokedAt time.Time
	reason    string
}

const familyRecord = 1

// parties are the client and the user of a lineage, as they stand now, by the
// heads of their records.
type parties struct {
	client Client
	user   User
}

// readParties returns the two when both are there, enabled, and of the
// generations that the lineage carries; else ErrDisabled.
func readParties(r kv.Reader, l lineage) (p parties, err error) {
	client, err := r.Get(clientKey(l.client))
	if err != nil && !isAbsent(err) {
		return parties{}, err
	}
	user, userErr := r.Get(userKey(l.user)) // even when the client is gone, so that it takes as long
	if err = cmp.Or(err, userErr); err != nil {
		return parties{}, goneIsDisabled(err)
	}
	if p.client, err = decodeClientHead(l.client, client); err != nil {
		return parties{}, err
	}
	if p.user, err = decodeUserHead(l.user, user); err != nil {
		return parties{}, err
	}
	if !p.client.DisabledAt.IsZero() || p.client.Generation != l.clientGeneration ||
		!p.user.DisabledAt.IsZero() || p.user.Generation != l.userGeneration {
		return parties{}, ErrDisabled
	}
	return p, nil
}

func goneIsDisabled(err error) error {
	if isAbsent(err) {
		return ErrDisabled
	}
	return err
}

// createFamily stores a new family with its two index entries.
func createFamily(tx kv.Txn, f family) error {
	if err := tx.Set(clientFamiliesKey(f.client).id(f.id), nil, f.expiresAt); err != nil {
		return err
	}
	if err := tx.Set(userFamiliesKey(f.user).id(f.id), nil, f.expiresAt); err != nil {
		return err
	}
	return writeFamily(tx, f)
}

// revokeFamily ends a family within tx. One already revoked keeps its reason.
func revokeFamily(tx kv.Txn, f family, now time.Time, reason string) error {
	if !f.revokedAt.IsZero() {
		return nil
	}
	f.revokedAt, f.reason = now, reason
	return writeFamily(tx, f)
}

// deleteFamilies removes the families that an index lists, with the index.
func (s *Store) deleteFamilies(ctx context.Context, index key) error {
	err := s.deleteIndexed(ctx, index, func(rest []byte) [][]byte {
		return [][]byte{append(newKey(tagFamily), rest...)}
	})
	if err != nil {
		return fmt.Errorf("delete families: %w", err)
	}
	return nil
}

func readFamily(r kv.Reader, id secret.ID) (family, error) {
	v, err := r.Get(familyKey(id))
	if err != nil {
		return family{}, found(err)
	}
	return decodeFamily(id, v)
}

func writeFamily(tx kv.Txn, f family) error {
	return tx.Set(familyKey(f.id), encodeFamily(f), f.expiresAt)
}

func encodeFamily(f family) []byte {
	e := newEncoder(familyRecord)
	e.lineage(f.lineage)
	e.byte(byte(f.scope))
	e.time(f.createdAt)
	e.time(f.usedAt)
	e.time(f.expiresAt)
	e.time(f.revokedAt)
	e.str(f.reason)
	return e.b
}

func decodeFamily(id secret.ID, v []byte) (family, error) {
	d := newDecoder("family", familyRecord, v)
	f := family{id: id, lineage: d.lineage(), scope: Scope(d.byte()), createdAt: d.time(), usedAt: d.time(),
		expiresAt: d.time(), revokedAt: d.time(), reason: d.str()}
	return f, d.done()
}

func (e *encoder) lineage(l lineage) {
	e.str(l.client)
	e.uint(l.clientGeneration)
	e.id(l.user)
	e.uint(l.userGeneration)
	e.str(l.account)
}

func (d *decoder) lineage() lineage {
	return lineage{client: d.str(), clientGeneration: d.uint(), user: d.id(), userGeneration: d.uint(), account: d.str()}
}
