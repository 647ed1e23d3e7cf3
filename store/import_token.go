package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

const (
	// importTokenWrites is what the tokens of a line may write: the family with two entries, two
	// tokens with their texts, and with each text until when such texts are looked up.
	importTokenWrites = 9
	// standInWrites is what stands in for lines before, in a dry run: an account, a client, a user
	// with the name, and two texts, all of which are deleted again.
	standInWrites = 12
)

func (im *Importer) readToken(r *moving.Token, item *importItem) error {
	given, err := readTokens(r)
	if err != nil {
		return err
	}
	id := secret.NewID(im.store.random)
	item.size.writes = importTokenWrites
	if im.options.DryRun {
		item.size.writes += standInWrites
	}
	item.apply = func(tx kv.Txn) (importOutcome, error) {
		var d standIns
		if im.options.DryRun {
			d = standIns{im: im, tx: tx, line: item.line}
			d.parties(given)
			d.texts(given)
		}
		o, err := im.store.importTokens(tx, given, id)
		isMade := err == nil && !o.unchanged && !o.expired
		return importOutcome{exists: o.unchanged, expired: o.expired, cut: o.cut, seen: d.seen(given, isMade)}, errors.Join(err, d.end())
	}
	return nil
}

// standIns are records of lines before, whose Updates a dry run has rolled back, for one line of
// tokens. The zero standIns is that of an import that is none.
type standIns struct {
	im   *Importer
	tx   kv.Txn
	line int
	keys []record.Key
	err  error
}

// put writes a record unless there is one.
func (d *standIns) put(key record.Key, value []byte) {
	_, err := d.tx.Get(key)
	if record.IsAbsent(err) {
		d.keys, err = append(d.keys, key), d.tx.Set(key, value, time.Time{})
	}
	d.err = errors.Join(d.err, err)
}

// end deletes the records.
func (d *standIns) end() error {
	for _, key := range d.keys {
		d.err = errors.Join(d.err, d.tx.Delete(key))
	}
	return d.err
}

// parties stand in for the client and the user of a line. Of their account it is not known whether
// it is disabled.
func (d *standIns) parties(given ImportedTokens) {
	const account = "acct_of_a_dry_run"
	now := d.im.store.Now()
	d.put(record.AccountKey(account), encodeAccount(Account{ID: account}))
	if found, isSeen := d.im.seen.find("client", given.ClientID); isSeen {
		of := describeClient(Client{}, Client{}, false)
		c := Client{ID: given.ClientID, Grants: allGrants, Platform: found.says(of, "platform", "true")}
		if !found.says(of, "account", "") {
			c.Account = account
		}
		if found.says(of, "disabled", "true") {
			c.DisabledAt = now
		}
		d.put(record.ClientKey(c.ID), encodeClient(c))
	}
	canonical, _ := CanonicalUsername(given.Username)
	if found, isSeen := d.im.seen.find("user", canonical); isSeen {
		id := sha256.Sum256([]byte(canonical))
		u := User{ID: secret.ID(id[:16]), Username: canonical, Canonical: canonical, Account: account}
		if found.says(describeUser(User{}), "disabled", "true") {
			u.DisabledAt = now
		}
		d.put(record.UserNameKey(canonical), u.ID[:])
		d.put(record.UserKey(u.ID), encodeUser(u))
	}
}

// texts stand in for the tokens of lines before that have the texts of a line.
func (d *standIns) texts(given ImportedTokens) {
	l, err := given.lineage(d.tx)
	if err != nil {
		return // which refuses the line
	}
	of := d.describe(given).seen()
	for _, t := range []ImportedToken{given.Access, given.Refresh} {
		found, isSeen := d.im.seen.find("token", string(t.Hash[:]))
		if !isSeen {
			continue
		}
		var text tokenText
		if found[0] == of[0] {
			text.party = l.party()
		}
		binary.BigEndian.PutUint32(text.family[:], found[1])
		d.put(record.ImportedTokenKey(t.Hash), encodeTokenText(text))
	}
}

// describe returns what is remembered of each token of a line.
func (d *standIns) describe(given ImportedTokens) description {
	canonical, _ := CanonicalUsername(given.Username)
	return description{describedList("party", []string{given.ClientID, canonical}), {member: "line", text: strconv.Itoa(d.line)}}
}

// seen returns what later lines may have again of a line.
func (d *standIns) seen(given ImportedTokens, isMade bool) (entries []seenEntry) {
	if d.im == nil || !isMade {
		return nil
	}
	for _, t := range []ImportedToken{given.Access, given.Refresh} {
		if !t.isEnded(d.im.store.Now()) {
			entries = append(entries, seenAs("token", string(t.Hash[:]), d.describe(given)))
		}
	}
	return entries
}

// says reports whether a member of a record that is described as d had that text.
func (s seenMembers) says(d description, member, text string) bool {
	i := slices.IndexFunc(d, func(m described) bool { return m.member == member })
	return uint16(s[i]) == uint16(description{{text: text}}.seen()[0])
}
