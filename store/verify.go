package store

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/stats"
	"tollhouse/store/webhook"
)

// CheckAll reads the whole store in one snapshot, decodes every record, checks every
// index against its records, and returns the number of records. An error that matches
// [ErrCorrupt] says what is damaged and where; the engine's errors are returned
// unchanged. It may take minutes.
func (s *Store) CheckAll(ctx context.Context) (records int64, err error) {
	engine, ok := s.db.(kv.Snapshotter)
	if !ok {
		return 0, errNoSnapshots
	}
	v := newVerifier()
	err = engine.Snapshot(ctx, func(page []kv.Record) error {
		for _, r := range page {
			if err := v.record(r.Key, r.Value); err != nil {
				return err
			}
			records++
		}
		return nil
	})
	if err == nil {
		err = v.finish()
	}
	if err != nil {
		return records, fmt.Errorf("check the store: %w", record.NameDamaged(err))
	}
	return records, nil
}

// verifier checks the records of a store in key order. It relies on that order: an
// index of expiring records comes before them, and events come before their lists.
//
// Removal in steps leaves index entries that point to nothing, and readers skip them,
// so they are no damage. A record missing from its index is damage: it could not be
// found when it must be revoked.
type verifier struct {
	seed                    maphash.Seed
	format                  uint64    // according to the store's own record
	id                      secret.ID // of the instance; zero until its record was read
	fixtures                bool
	users                   map[secret.ID]*listedUser // that were not found yet
	factors                 map[secret.ID]factors     // of users who were not found yet
	clients, clientsCounted uint64
	imported                importedCounts // of users who were not found yet
	index                   map[byte]*keySet
	log                     *eventlog.Verifier
	webhooks                *webhook.Verifier
	audit                   record.Position // of the last line
}

func newVerifier() *verifier {
	return &verifier{
		seed: maphash.MakeSeed(), log: eventlog.NewVerifier(), webhooks: webhook.NewVerifier(),
		users: map[secret.ID]*listedUser{}, factors: map[secret.ID]factors{}, imported: newImportedCounts(), index: map[byte]*keySet{},
	}
}

// keyShape is the form of a kind of key: fixed bytes, texts, and fixed bytes again.
type keyShape struct{ front, texts, tail int }

// keyParts is a parsed key.
type keyParts struct {
	front []byte
	texts []string
	tail  []byte
}

// listedUser is what the lists of accounts' users and of names have about a user.
type listedUser struct{ account, name string }

const (
	idSize   = len(secret.ID{})
	hashSize = len(secret.Hash{})
)

// recordKind says how to check a kind of record.
type recordKind struct {
	shape keyShape
	check func(v *verifier, k []byte, parts keyParts, value []byte) error
}

// recordKinds has every tag except TagLog, whose keys have their own form.
var recordKinds = map[byte]recordKind{
	record.TagMeta: {keyShape{texts: 1}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.meta(p.texts[0], value) }},
	record.TagClient: {keyShape{texts: 1}, func(v *verifier, _ []byte, p keyParts, value []byte) error {
		v.clients++
		c, err := decodeClient(p.texts[0], value)
		if err == nil && !c.canVerifySecrets() {
			err = record.Damaged("a client has the hash of a secret that cannot be verified")
		}
		return err
	}},
	record.TagUser:     {keyShape{tail: idSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.user(secret.ID(p.tail), value) }},
	record.TagUserName: {keyShape{texts: 1}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.userName(p.texts[0], value) }},
	record.TagAccount:  {keyShape{texts: 1}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.account(p.texts[0], value) }},
	record.TagAccountUser: {keyShape{texts: 1, tail: idSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error {
		return v.accountUser(p.texts[0], secret.ID(p.tail), value)
	}},
	record.TagDecided: {keyShape{tail: hashSize}, decoded(checkDecided)},

	record.TagSession:      {keyShape{tail: hashSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.session(p, value) }},
	record.TagCode:         {keyShape{tail: hashSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.code(p, value) }},
	record.TagFamily:       {keyShape{tail: idSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.family(p, value) }},
	record.TagUserSession:  {keyShape{tail: idSize + hashSize}, noted},
	record.TagUserCode:     {keyShape{front: idSize, texts: 1, tail: hashSize}, noted},
	record.TagClientFamily: {keyShape{texts: 1, tail: idSize}, noted},
	record.TagUserFamily:   {keyShape{tail: 2 * idSize}, noted},
	record.TagConsent:      {keyShape{front: idSize, texts: 1}, decoded(checkRemembered)},

	record.TagAccessToken: {keyShape{tail: hashSize}, decoded(func(p keyParts, value []byte) error {
		_, err := decodeAccessToken(secret.Hash(p.tail), value)
		return err
	})},
	record.TagRefreshToken: {keyShape{tail: hashSize}, decoded(func(p keyParts, value []byte) error {
		_, err := decodeRefreshToken(secret.Hash(p.tail), value)
		return err
	})},
	record.TagImported: {keyShape{tail: hashSize}, decoded(func(_ keyParts, value []byte) error { _, err := decodeTokenText(struct{}{}, value); return err })},
	record.TagAudit: {keyShape{tail: record.PositionSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error {
		return v.auditLine(record.Position(p.tail), value)
	}},

	record.TagEventHead: {keyShape{texts: 1}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.log.Head(p.texts[0], value) }},
	record.TagKnownType: {keyShape{texts: 2}, func(v *verifier, _ []byte, p keyParts, value []byte) error {
		return v.log.KnownType(p.texts[0], p.texts[1], value)
	}},
	record.TagEventForeign: {keyShape{texts: 2}, func(v *verifier, k []byte, p keyParts, value []byte) error {
		return v.log.Foreign(p.texts[0], k, value)
	}},
	record.TagResource:    {keyShape{texts: 3}, func(v *verifier, _ []byte, _ keyParts, value []byte) error { return v.log.Resource(value) }},
	record.TagCounts:      {keyShape{texts: 1, tail: 5}, decoded(func(_ keyParts, value []byte) error { return eventlog.CheckCounts(value) })},
	record.TagRing:        {keyShape{tail: 5}, decoded(func(_ keyParts, value []byte) error { return stats.CheckRecord(value) })},
	record.TagFactor:      {keyShape{tail: idSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.factor(secret.ID(p.tail), value) }},
	record.TagSignIn:      {keyShape{tail: idSize}, decoded(checkLatest)},
	record.TagClientUse:   {keyShape{texts: 1}, decoded(checkLatest)},
	record.TagWebhookLine: {keyShape{texts: 1, tail: idSize + 4}, func(v *verifier, _ []byte, _ keyParts, value []byte) error { return v.webhooks.Line(value) }},
	record.TagWebhookSet: {keyShape{texts: 1, tail: idSize + record.PositionSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error {
		return v.webhooks.Aside(secret.ID(p.tail[:idSize]), record.Position(p.tail[idSize:]), value)
	}},
	record.TagWebhookID: {keyShape{tail: idSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error {
		return v.webhooks.Listed(secret.ID(p.tail), value)
	}},
	record.TagWebhook: {keyShape{texts: 1, tail: idSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error {
		return v.webhooks.Endpoint(p.texts[0], secret.ID(p.tail), value)
	}},
	record.TagFeed: {keyShape{tail: record.FeedPositionSize}, func(v *verifier, k []byte, _ keyParts, value []byte) error {
		return v.log.FeedEntry(record.FeedPositionAt(k), value)
	}},
	record.TagAlarm:       {keyShape{texts: 1}, decoded(func(_ keyParts, value []byte) error { _, err := decodeAlarm(value); return err })},
	record.TagCertificate: {keyShape{texts: 1}, decoded(func(_ keyParts, value []byte) error { _, err := decodeCertificate(value); return err })},
}

// kindNames are the kinds of record to show to people.
var kindNames = map[byte]string{
	record.TagClient: "clients", record.TagUser: "users", record.TagAccount: "accounts", record.TagSession: "sessions", record.TagFamily: "families",
	record.TagLog: "events", record.TagResource: "resources", record.TagAudit: "audit lines",
	record.TagWebhook: "webhook endpoints",
}

// NameKinds takes record counts by tag and returns those to show to people, by name,
// including zeros.
func NameKinds(kinds map[string]int64) map[string]int64 {
	named := map[string]int64{}
	for tag, name := range kindNames {
		named[name] = kinds[string(tag)]
	}
	named[kindNames[record.TagLog]] /= eventlog.ListsOfEvent
	return named
}

// decoded is the check of a record that needs no other record.
func decoded(check func(keyParts, []byte) error) func(*verifier, []byte, keyParts, []byte) error {
	return func(_ *verifier, _ []byte, p keyParts, value []byte) error { return check(p, value) }
}

// noted remembers an index entry for the records that follow.
func noted(v *verifier, k []byte, _ keyParts, value []byte) error {
	v.set(k[0]).add(maphash.Bytes(v.seed, k))
	return noValue(value)
}

func noValue(value []byte) error {
	if len(value) > 0 {
		return record.Damaged("an index entry has a value")
	}
	return nil
}

// record checks the next record.
func (v *verifier) record(k, value []byte) error {
	err := v.check(k, value)
	if err != nil && record.KindWords[k[0]] != "" {
		return fmt.Errorf("record of the kind %q (%s): %w", k[0], record.KindWords[k[0]], err)
	}
	return err
}

func (v *verifier) check(k, value []byte) error {
	if k[0] == record.TagLog {
		return v.log.InLog(k, value)
	}
	kind, known := recordKinds[k[0]]
	if !known {
		return record.Damaged("unknown kind of record %q", k[0])
	}
	parts, fits := kind.shape.take(k[1:])
	if !fits {
		return record.ErrKeyShape
	}
	return kind.check(v, k, parts, value)
}

// finish makes the checks that need all records.
func (v *verifier) finish() error {
	if v.id.IsZero() {
		return record.Damaged("the store's own record is missing")
	}
	for range v.users {
		return record.Damaged("%d users are in the list of names or of an account only", len(v.users))
	}
	for range v.factors {
		return record.Damaged("%d second factors are of no user", len(v.factors))
	}
	if v.clients != v.clientsCounted {
		return record.Damaged("there are %d clients, and %d are counted", v.clients, v.clientsCounted)
	}
	if len(v.imported.costs)+len(v.imported.days) > 0 {
		return record.Damaged("more imported hashes are counted than users have")
	}
	if err := v.webhooks.Finish(); err != nil {
		return err
	}
	return v.log.Finish()
}

// take parses a key without its tag.
func (s keyShape) take(k []byte) (p keyParts, fits bool) {
	if len(k) < s.front+s.tail {
		return p, false
	}
	p.front, k = k[:s.front], k[s.front:]
	k, p.tail = k[:len(k)-s.tail], k[len(k)-s.tail:]
	for range s.texts {
		text, rest, ended := bytes.Cut(k, []byte{0})
		if !ended {
			return p, false
		}
		p.texts, k = append(p.texts, string(text)), rest
	}
	return p, len(k) == 0
}

func (v *verifier) meta(name string, value []byte) (err error) {
	switch name {
	case metaStore:
		var m meta
		m, err = decodeMeta(value)
		v.format, v.id = m.format, m.instance
		return err
	case auditHeadName:
		d := record.NewDecoder("audit head", auditRecord, value)
		if head := d.Position(); d.Err == nil && v.audit.Compare(head) > 0 {
			return record.Damaged("the audit log continues after its head")
		}
		return d.Done()
	case metaBackup:
		_, err := decodeBackup(value)
		return err
	case eventlog.FeedName:
		return v.log.FeedHead(value)
	case metaEpoch:
		_, err := decodeEpoch(value)
		return err
	case metaClients:
		n, err := decodeClientCounts(value)
		v.clientsCounted = n.clients
		return err
	case importedName:
		v.imported, err = decodeImported(value)
		return err
	case webhook.MetaName:
		return webhook.CheckInstance(value)
	case metaImported:
		_, err := decodeLatest(value)
		return err
	case metaFixtures:
		v.fixtures = true
	}
	return nil // only its writer knows its meaning
}

func (v *verifier) account(id string, value []byte) error {
	a, err := decodeAccount(id, value)
	if err == nil && !a.erasedSince.IsZero() {
		v.log.Erasing(id)
	}
	return err
}

func (v *verifier) accountUser(account string, id secret.ID, value []byte) error {
	if v.users[id] != nil {
		return record.Damaged("a user is in the lists of two accounts")
	}
	v.users[id] = &listedUser{account: account}
	return noValue(value)
}

func (v *verifier) userName(name string, value []byte) error {
	id, err := userID(value)
	if err != nil {
		return err
	}
	switch u := v.users[id]; {
	case u == nil:
		return record.Damaged("a name has a user who is in no account's list")
	case u.name != "":
		return record.Damaged("a user is in the list of names twice")
	default:
		u.name = name
		return nil
	}
}

func (v *verifier) user(id secret.ID, value []byte) error {
	u, err := decodeUser(id, value)
	if err != nil {
		return err
	}
	listed := v.users[id]
	switch {
	case listed == nil || listed.account != u.Account:
		return record.Damaged("the user %s is missing from the list of the account's users", u.Subject())
	case listed.name != u.Canonical:
		return record.Damaged("the user %s is missing from the list of names", u.Subject())
	}
	delete(v.users, id)
	if v.factors[id] != u.factors {
		return record.Damaged("the user %s and the record of their second factor disagree", u.Subject())
	}
	delete(v.factors, id)
	if u.password != "" && secret.CheckPasswordHash(u.password, !u.importedOn.IsZero()) != nil {
		return record.Damaged("the user %s has a password hash that cannot be verified", u.Subject())
	}
	return v.imported.add(u, -1)
}

func (v *verifier) factor(id secret.ID, value []byte) error {
	f, err := decodeFactor(id, value)
	v.factors[id] = f.kinds()
	return err
}

func checkLatest(_ keyParts, value []byte) error {
	_, err := decodeLatest(value)
	return err
}

func checkDecided(_ keyParts, value []byte) error {
	_, err := decodeDecided(struct{}{}, value)
	return err
}

func checkRemembered(p keyParts, value []byte) error {
	r, err := decodeRemembered(p.texts[0], value)
	if err == nil && (r.user != secret.ID(p.front) || r.client != p.texts[0]) {
		return record.Damaged("a remembered consent is another user's or client's")
	}
	return err
}

func (v *verifier) session(p keyParts, value []byte) error {
	sn, err := decodeSession(secret.Hash(p.tail), value)
	if err != nil {
		return err
	}
	return v.mustList(record.UserSessionsKey(sn.user).Hash(sn.hash), "a sign-in is not in its user's list")
}

func (v *verifier) code(p keyParts, value []byte) error {
	c, err := decodeCode(secret.Hash(p.tail), value)
	if err != nil || !c.usedAt.IsZero() {
		return err
	}
	return v.mustList(c.indexKey(), "an authorization code is not in its user's list")
}

func (v *verifier) family(p keyParts, value []byte) error {
	f, err := decodeFamily(secret.ID(p.tail), value)
	if err != nil {
		return err
	}
	if err := v.mustList(record.ClientFamiliesKey(f.client).ID(f.id), "a family is not in its client's list"); err != nil {
		return err
	}
	if f.user.IsZero() {
		return nil
	}
	return v.mustList(record.UserFamiliesKey(f.user).ID(f.id), "a family is not in its user's list")
}

func (v *verifier) auditLine(p record.Position, value []byte) error {
	v.audit = p
	_, err := decodeAudit(p, value)
	return err
}

func (v *verifier) mustList(k record.Key, otherwise string) error {
	if !v.set(k[0]).has(maphash.Bytes(v.seed, k)) {
		return record.Damaged("%s", otherwise)
	}
	return nil
}

func (v *verifier) set(tag byte) *keySet {
	if v.index[tag] == nil {
		v.index[tag] = &keySet{}
	}
	return v.index[tag]
}

// keySet is a set of keys, stored as 8-byte hashes. A false match is as likely as one
// in some billions.
type keySet struct {
	hashes []uint64
	sorted bool
}

func (s *keySet) add(hash uint64) { s.hashes, s.sorted = append(s.hashes, hash), false }

func (s *keySet) has(hash uint64) bool {
	if !s.sorted {
		slices.Sort(s.hashes)
		s.sorted = true
	}
	_, found := slices.BinarySearch(s.hashes, hash)
	return found
}
