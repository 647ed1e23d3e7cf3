package store

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// CheckAll reads the whole store in one snapshot: it decodes every record, and
// checks every index against what it lists. It returns how many records there
// are. An error that matches [ErrCorrupt] says what is wrong, and where; those
// of the engine are returned as they are. It may take minutes.
func (s *Store) CheckAll(ctx context.Context) (records int64, err error) {
	engine, ok := s.db.(kv.Snapshotter)
	if !ok {
		return 0, errNoSnapshots
	}
	if records, err = checkAll(ctx, engine); err != nil {
		return records, fmt.Errorf("check the store: %w", nameDamaged(err))
	}
	return records, nil
}

// checkAll is CheckAll of an engine.
func checkAll(ctx context.Context, engine kv.Snapshotter) (records int64, err error) {
	v := newVerifier(schemaVersion)
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
	return records, err
}

// verifier checks all records of a store, which it is given in the order of
// their keys. It relies on that order: every index of what expires comes before
// what it lists, and events come before the lists of them.
//
// What is removed in steps leaves entries behind that point at nothing, and
// whoever reads them passes over them; so an entry alone is no damage. What may
// not be is a record that its index does not list: nobody would find it when it
// is to be ended.
type verifier struct {
	of     uint64 // the schema by which it judges
	seeds  [2]maphash.Seed
	schema uint64    // that the store tells of
	id     secret.ID // of the instance; zero until its record has come
	names  map[secret.ID]string
	index  map[byte]*keySet
	logs   map[string]*eventLog
	audit  Position // of the last line
	part   part     // of the log, in which the record lies
}

func newVerifier(schema uint64) *verifier {
	return &verifier{
		of: schema, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		names: map[secret.ID]string{}, index: map[byte]*keySet{}, logs: map[string]*eventLog{},
	}
}

// keyShape is how keys of a kind are built: bytes of a fixed number, texts, and
// bytes of a fixed number again.
type keyShape struct{ front, texts, tail int }

// keyParts is a key taken apart.
type keyParts struct {
	front []byte
	texts []string
	tail  []byte
}

const (
	idSize       = len(secret.ID{})
	hashSize     = len(secret.Hash{})
	positionSize = len(Position{})
)

// recordKind says how the records of a kind are checked.
type recordKind struct {
	shape keyShape
	check func(v *verifier, k []byte, parts keyParts, value []byte) error
}

// recordKinds has every tag of keys.go but tagLogPart, which stands before the
// others of a log in its later parts.
var recordKinds = map[byte]recordKind{
	tagMeta:     {keyShape{texts: 1}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.meta(p.texts[0], value) }},
	tagClient:   {keyShape{texts: 1}, decoded(func(p keyParts, value []byte) error { _, err := decodeClient(p.texts[0], value); return err })},
	tagUser:     {keyShape{tail: idSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.user(secret.ID(p.tail), value) }},
	tagUserName: {keyShape{texts: 1}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.userName(p.texts[0], value) }},
	tagAccount:  {keyShape{texts: 1}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.account(p.texts[0], value) }},
	tagDecided:  {keyShape{tail: hashSize}, decoded(checkDecided)},

	tagSession:      {keyShape{tail: hashSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.session(p, value) }},
	tagCode:         {keyShape{tail: hashSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.code(p, value) }},
	tagFamily:       {keyShape{tail: idSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.family(p, value) }},
	tagUserSession:  {keyShape{tail: idSize + hashSize}, noted},
	tagUserCode:     {keyShape{front: idSize, texts: 1, tail: hashSize}, noted},
	tagClientFamily: {keyShape{texts: 1, tail: idSize}, noted},
	tagUserFamily:   {keyShape{tail: 2 * idSize}, noted},

	tagAccessToken: {keyShape{tail: hashSize}, decoded(func(p keyParts, value []byte) error {
		_, err := decodeAccessToken(secret.Hash(p.tail), value)
		return err
	})},
	tagRefreshToken: {keyShape{tail: hashSize}, decoded(func(p keyParts, value []byte) error {
		_, err := decodeRefreshToken(secret.Hash(p.tail), value)
		return err
	})},
	tagAudit: {keyShape{tail: positionSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error {
		return v.auditLine(Position(p.tail), value)
	}},

	tagEvent:         {keyShape{texts: 1, tail: positionSize}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.event(p, value) }},
	tagEventHead:     {keyShape{texts: 1}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.head(p, value) }},
	tagKnownType:     {keyShape{texts: 2}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.knownType(p, value) }},
	tagEventType:     {keyShape{texts: 2, tail: positionSize}, (*verifier).listed},
	tagEventResource: {keyShape{texts: 2, tail: positionSize}, (*verifier).listed},
	tagEventForeign:  {keyShape{texts: 2}, (*verifier).listed},
	tagResource:      {keyShape{texts: 3}, func(v *verifier, _ []byte, p keyParts, value []byte) error { return v.resource(p, value) }},
	tagCertificate:   {keyShape{texts: 1}, decoded(func(_ keyParts, value []byte) error { _, err := decodeCertificate(value); return err })},
}

// kindNames are the kinds of record that people know.
var kindNames = map[byte]string{
	tagClient: "clients", tagUser: "users", tagAccount: "accounts", tagSession: "sessions", tagFamily: "families",
	tagEvent: "events", tagResource: "resources", tagAudit: "audit lines",
}

// NameKinds takes counts of records by the first byte of their keys, and returns
// those of the kinds that people know, by name; a kind of which there is none
// has its 0.
func NameKinds(kinds map[string]int64) map[string]int64 {
	named := map[string]int64{}
	for tag, name := range kindNames {
		named[name] = kinds[string(tag)]
	}
	// In a later part of a log each event is there once for each list.
	named[kindNames[tagEvent]] += kinds[string(tagLogPart)] / int64(len(logLists))
	return named
}

// decoded is a check of a record that depends on no other.
func decoded(check func(keyParts, []byte) error) func(*verifier, []byte, keyParts, []byte) error {
	return func(_ *verifier, _ []byte, p keyParts, value []byte) error { return check(p, value) }
}

// noted keeps an index's entry for the records that come after it.
func noted(v *verifier, k []byte, _ keyParts, value []byte) error {
	if len(value) > 0 {
		return damaged("an entry of an index holds something")
	}
	v.set(k[0]).add(maphash.Bytes(v.seeds[0], k))
	return nil
}

// record checks the next record.
func (v *verifier) record(k, value []byte) error {
	v.part = 0
	if k[0] == tagLogPart && v.of >= schemaLogParted {
		pt, whole, fits := outOfPart(k)
		if !fits {
			return damaged("a key of the kind %q has not the form of one", k[0])
		}
		v.part, k = pt, whole
	}
	kind, known := recordKinds[k[0]]
	if !known {
		return damaged("there is no kind %q of record", k[0])
	}
	parts, fits := kind.shape.take(k[1:])
	if !fits {
		return damaged("a key of the kind %q has not the form of one", k[0])
	}
	if err := kind.check(v, k, parts, value); err != nil {
		return fmt.Errorf("record of the kind %q (%s): %w", k[0], kindWords[k[0]], err)
	}
	return nil
}

// finish checks what is known only when all records have come.
func (v *verifier) finish() error {
	if v.id.IsZero() {
		return damaged("the record of the store itself is missing")
	}
	for range v.names {
		return damaged("%d names of users name nobody", len(v.names))
	}
	for owner, l := range v.logs {
		if err := l.finish(owner); err != nil {
			return err
		}
	}
	return nil
}

// take takes a key without its tag apart.
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
		v.schema, v.id, err = decodeMeta(value)
		return err
	case auditHeadName:
		d := newDecoder("audit head", auditRecord, value)
		if head := d.position(); d.err == nil && v.audit.Compare(head) > 0 {
			return damaged("the audit record goes on behind its head")
		}
		return d.done()
	case metaBackup:
		_, err := decodeBackup(value)
		return err
	}
	return nil // what it means is for those who wrote it
}

func (v *verifier) account(id string, value []byte) error {
	a, err := decodeAccount(id, value)
	if err == nil && !a.erasedSince.IsZero() {
		v.log(id).erasing = true
	}
	return err
}

func (v *verifier) userName(name string, value []byte) error {
	id, err := userID(value)
	v.names[id] = name
	return err
}

func (v *verifier) user(id secret.ID, value []byte) error {
	u, err := decodeUser(id, value)
	if err != nil {
		return err
	}
	if name, named := v.names[id]; !named || name != u.Canonical {
		return damaged("the user %s is not found by their name", u.Subject())
	}
	delete(v.names, id)
	return nil
}

func checkDecided(_ keyParts, value []byte) error {
	d := newDecoder("decided ticket", decidedRecord, value)
	d.time()
	d.time()
	return d.done()
}

func (v *verifier) session(p keyParts, value []byte) error {
	sn, err := decodeSession(secret.Hash(p.tail), value)
	if err != nil {
		return err
	}
	return v.mustList(userSessionsKey(sn.user).hash(sn.hash), "a sign-in is not in its user's list")
}

func (v *verifier) code(p keyParts, value []byte) error {
	c, err := decodeCode(secret.Hash(p.tail), value)
	if err != nil || !c.usedAt.IsZero() || v.of < schemaCodesListed {
		return err
	}
	return v.mustList(c.indexKey(), "an authorization code is not in its user's list")
}

func (v *verifier) family(p keyParts, value []byte) error {
	f, err := decodeFamily(secret.ID(p.tail), value)
	if err != nil {
		return err
	}
	if err := v.mustList(clientFamiliesKey(f.client).id(f.id), "a family is not in its client's list"); err != nil {
		return err
	}
	return v.mustList(userFamiliesKey(f.user).id(f.id), "a family is not in its user's list")
}

func (v *verifier) auditLine(p Position, value []byte) error {
	v.audit = p
	_, err := decodeAudit(p, value)
	return err
}

func (v *verifier) mustList(k key, otherwise string) error {
	if !v.set(k[0]).has(maphash.Bytes(v.seeds[0], k)) {
		return damaged("%s", otherwise)
	}
	return nil
}

func (v *verifier) set(tag byte) *keySet {
	if v.index[tag] == nil {
		v.index[tag] = &keySet{}
	}
	return v.index[tag]
}

// keySet is a set of keys by their hashes, in 8 bytes each. A key that it does
// not hold is taken for one that it does once in some billions of times.
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
