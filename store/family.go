package store

import (
	"context"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// Reasons why a family was revoked, as the logs show them.
const (
	ReasonCodeReplayed    = "code_replayed"
	ReasonRefreshReused   = "refresh_reused"
	ReasonRetiredReplayed = "retired_refresh_used"
	ReasonRevokedByClient = "revoked_by_client"
	ReasonRevokedByUser   = "revoked_by_user"

	ReasonRevokedByOperator = "revoked_by_operator"
)

// lineage says for whom tokens were issued: the account, the client and the user, with
// their generations at the time of the authorization. The user is zero if the client
// acts for itself. Codes, families and access tokens carry it. Generations are counters because a clock may step back.
type lineage struct {
	client           string
	clientGeneration uint64
	user             secret.ID
	userGeneration   uint64
	account          string

	accountGeneration uint64
}

// family is all the tokens of one authorization. One write revokes them all.
type family struct {
	lineage
	id        secret.ID
	scope     Scope
	createdAt time.Time
	usedAt    time.Time
	expiresAt time.Time
	revokedAt time.Time
	reason    string
	imported  bool // with tokens of another system, none of which was refreshed here
	amr       Amr  // of the sign-in behind the authorization
}

const familyRecord = 1

// parties are the current client and user of a lineage, from the heads of their
// records. Without a user, user is zero.
type parties struct {
	client Client
	user   User
}

// readParties returns both parties if they and the account exist, are enabled, and have the
// lineage's generations; otherwise ErrDisabled.
func readParties(r kv.Reader, l lineage) (p parties, err error) {
	client := make(record.Key, 0, 160).Next(record.TagClient).Str(l.client)
	accountKey := client.Next(record.TagAccount).Str(l.account)
	user := accountKey.Next(record.TagUser).ID(l.user)
	if remote, is := r.(kv.Prefetcher); is {
		remote.Prefetch(l.keys())
	}
	p.client, err = record.Read(r, client, l.client, decodeClientHead)
	isOpen := p.client.Platform // which acts for any account, unless it is bound to one
	if err == nil && (l.account != "" || !isOpen) {
		var account Account
		account, err = record.Read(r, accountKey, l.account, decodeAccountHead)
		if isOpen {
			account.DisabledAt = time.Time{} // a disabled account's as well
		}
		isOpen = account.isOpenTo(l.accountGeneration)
	}
	if err == nil && !l.user.IsZero() {
		p.user, err = record.Read(r, user, l.user, decodeUserHead)
	}
	if err != nil {
		return parties{}, goneIsDisabled(err)
	}
	if !p.client.DisabledAt.IsZero() || p.client.Generation != l.clientGeneration || !isOpen ||
		!p.user.DisabledAt.IsZero() || p.user.Generation != l.userGeneration {
		return parties{}, record.ErrDisabled
	}
	return p, nil
}

// keys are those that readParties reads.
func (l lineage) keys() [][]byte {
	keys := [][]byte{record.ClientKey(l.client)}
	if l.account != "" {
		keys = append(keys, record.AccountKey(l.account))
	}
	if !l.user.IsZero() {
		keys = append(keys, record.UserKey(l.user))
	}
	return keys
}

func goneIsDisabled(err error) error {
	if record.IsAbsent(err) {
		return record.ErrDisabled
	}
	return err
}

// createFamily stores a new family with its index entries.
func createFamily(tx kv.Txn, f family) error {
	if err := tx.Set(record.ClientFamiliesKey(f.client).ID(f.id), nil, f.expiresAt); err != nil {
		return err
	}
	if !f.user.IsZero() {
		if err := tx.Set(record.UserFamiliesKey(f.user).ID(f.id), nil, f.expiresAt); err != nil {
			return err
		}
	}
	if !f.imported {
		if err := partiesUsed(tx, f.lineage); err != nil {
			return err
		}
	}
	return writeFamily(tx, f)
}

// revokeFamily revokes within tx a family that was not revoked before, with the webhook
// endpoints that its tokens created.
func revokeFamily(tx kv.Txn, n *webhook.Ending, f family, now time.Time, reason string) error {
	if err := writeRevoked(tx, f, now, reason); err != nil {
		return err
	}
	return endWebhooks(tx, n, f)
}

func writeRevoked(tx kv.Txn, f family, now time.Time, reason string) error {
	f.revokedAt, f.reason = now, reason
	if f.imported {
		if err := partiesUsed(tx, f.lineage); err != nil {
			return err
		}
	}
	return writeFamily(tx, f)
}

// endWebhooks disables the webhook endpoints that a family's tokens created. Those of a
// client that acts for itself are bound to the client.
func endWebhooks(tx kv.Txn, n *webhook.Ending, f family) error {
	if f.user.IsZero() {
		return nil
	}
	return n.In(tx, f.account, f.owner())
}

// deleteFamilies deletes an index and the families in it.
func deleteFamilies(ctx context.Context, db kv.DB, index record.Key) error {
	err := deleteIndexed(ctx, db, index, func(rest []byte) [][]byte {
		return [][]byte{append(record.NewKey(record.TagFamily), rest...)}
	})
	if err != nil {
		return fmt.Errorf("delete families: %w", err)
	}
	return nil
}

func readFamily(r kv.Reader, id secret.ID) (family, error) {
	return record.Read(r, record.FamilyKey(id), id, decodeFamily)
}

func writeFamily(tx kv.Txn, f family) error {
	return tx.Set(record.FamilyKey(f.id), encodeFamily(f), f.expiresAt)
}

func encodeFamily(f family) []byte {
	e := record.NewEncoder(familyRecord).Time(f.usedAt).Time(f.expiresAt).Time(f.revokedAt)
	encodeLineage(e, f.lineage).Uint(uint64(f.scope)).Time(f.createdAt).Str(f.reason).Bool(f.imported)
	if f.amr != AmrUnknown {
		e.Byte(byte(f.amr))
	}
	return e.B
}

func decodeFamily(id secret.ID, v []byte) (family, error) {
	d := record.NewDecoder("family", familyRecord, v)
	f := decodeFamilyFields(&d, id)
	f.lineage, f.scope, f.createdAt, f.reason, f.imported = decodeLineage(&d), decodeScope(&d), d.Time(), d.Str(), d.Bool()
	if d.More() {
		f.amr = decodeAmr(&d)
	}
	return f, d.Done()
}

type familyDecoder func(id secret.ID, v []byte) (family, error)

func decodeFamilyHead(id secret.ID, v []byte) (family, error) {
	d := record.NewDecoder("family", familyRecord, v)
	f := decodeFamilyFields(&d, id)
	return f, d.Err
}

// decodeFamilyFields reads the fields that every request needs; see decodeClientFields.
func decodeFamilyFields(d *record.Decoder, id secret.ID) family {
	return family{id: id, usedAt: d.Time(), expiresAt: d.Time(), revokedAt: d.Time()}
}

func encodeLineage(e *record.Encoder, l lineage) *record.Encoder {
	return e.Str(l.client).Uint(l.clientGeneration).ID(l.user).Uint(l.userGeneration).Str(l.account).Uint(l.accountGeneration)
}

func decodeLineage(d *record.Decoder) lineage {
	return lineage{client: d.Str(), clientGeneration: d.Uint(), user: d.ID(), userGeneration: d.Uint(), account: d.Str(), accountGeneration: d.Uint()}
}
