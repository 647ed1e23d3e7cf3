// Package record defines what the other packages of the store share: how keys are
// built, how records are encoded, what an event's position is, and the errors they
// return.
//
// A key is a tag byte, which names the kind of record, and then its components: texts
// that end in NUL, and ids, hashes and positions of fixed size. A value is a version
// byte and fields, written with [Encoder] and read with [Decoder]. [DeleteAll] and
// [List] work on any range of keys, and [NameDamaged] explains the engine's errors
// about them.
//
// The package imports the engine interface (package kv) and knows no client, user,
// token or event.
package record

import (
	"encoding/binary"
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// The tag is the first byte of a key and names the kind of record. Tags are on disk,
// so their meaning never changes.
const (
	TagMeta         = 'm' // str(name)
	TagClient       = 'c' // str(client_id)
	TagUser         = 'u' // id16
	TagUserName     = 'U' // str(canonical name) → id16
	TagAccount      = 'a' // str(account_id)
	TagAccountUser  = 'A' // str(account_id) id16
	TagSession      = 's' // h32
	TagUserSession  = 'S' // id16 h32
	TagDecided      = 'd' // h32
	TagCode         = 'k' // h32
	TagUserCode     = 'K' // id16 str(client_id) h32
	TagConsent      = 'R' // id16 str(client_id)
	TagFamily       = 'f' // id16
	TagClientFamily = 'F' // str(client_id) id16
	TagUserFamily   = 'W' // id16 id16
	TagAccessToken  = 't' // h32
	TagRefreshToken = 'r' // h32
	TagImported     = 'T' // h32
	TagAudit        = 'l' // pos16
	TagEventHead    = 'h' // str(owner)
	TagLog          = 'E' // start6 str(owner), then one of the lists of eventlog/segment.go
	TagEventForeign = 'x' // str(owner) str(id) → pos16
	TagKnownType    = 'n' // str(owner) str(type)
	TagResource     = 'o' // str(owner) str(kind) str(id)
	TagCertificate  = 'v' // str(name)
	TagCounts       = 'q' // str(owner) grain unit4; the owner "" is all accounts
	TagRing         = 'g' // grain unit4
	TagSignIn       = 'i' // id16
	TagClientUse    = 'I' // str(client_id)
	TagWebhook      = 'w' // str(account) id16
	TagWebhookID    = 'b' // id16 → account
	TagWebhookSet   = 'P' // str(account) id16 pos16
	TagWebhookLine  = 'L' // str(account) id16 slot4
	TagFeed         = 'G' // feed position, 8 bytes
	TagFactor       = 'j' // id16
	TagAlarm        = 'J' // str(name)
)

// The kinds of record that an engine does well to keep in memory, because almost every
// request reads them: those last used, and all clients, so that a caller cannot learn
// from the time of an answer which ids exist.
var (
	RecentKinds = string([]byte{TagMeta, TagUser, TagAccount, TagCode, TagFamily, TagAccessToken, TagRefreshToken, TagEventHead})
	WholeKinds  = string([]byte{TagClient})
)

// Key is a key under construction; each method appends a component.
type Key []byte

// NewKey begins a key with the tag of its kind of record.
func NewKey(tag byte) Key { return append(make(Key, 0, 96), tag) }

// Next begins another key in the memory behind k, if that suffices, so that a caller with several
// keys allocates once. Nothing may be appended to k afterwards.
func (k Key) Next(tag byte) Key { return append(k[len(k):], tag) }

// Str appends a text and a NUL. NUL sorts before every other byte, so "ab" sorts
// before "abc" and no text reaches into another's range. Texts with a NUL are rejected
// before they get here.
func (k Key) Str(text string) Key {
	if strings.IndexByte(text, 0) >= 0 {
		panic("store: NUL in a key component")
	}
	return append(append(k, text...), 0)
}

// Components of fixed size follow without a separator. Uint32 is big-endian, so that keys sort
// by it.

func (k Key) ID(id secret.ID) Key     { return append(k, id[:]...) }
func (k Key) Hash(h secret.Hash) Key  { return append(k, h[:]...) }
func (k Key) Position(p Position) Key { return append(k, p[:]...) }
func (k Key) Uint32(n uint32) Key     { return binary.BigEndian.AppendUint32(k, n) }

// Feed appends the key of a position in the feed.
func (k Key) Feed(p Position) Key { return append(append(k, TagFeed), p[:FeedPositionSize]...) }

// All is the range of all keys that begin with k.
func (k Key) All() kv.Range { return kv.Range{Lo: k, Hi: After(k)} }

// From is the range of the keys that begin with k and are not below lo.
func (k Key) From(lo Key) kv.Range { return kv.Range{Lo: lo, Hi: After(k)} }

// Uint32At returns the number at the end of a key.
func Uint32At(k []byte) uint32 { return binary.BigEndian.Uint32(k[len(k)-4:]) }

// CutString is the reverse of Str: it returns the text that k begins with, and a copy of the
// rest.
func CutString(k []byte) (string, []byte) {
	text, rest, _ := strings.Cut(string(k), "\x00")
	return text, []byte(rest)
}

// After returns the first key after all keys with the prefix, or nil when none can
// follow.
func After(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			next := append([]byte(nil), prefix[:i+1]...)
			next[i]++
			return next
		}
	}
	return nil
}

// The keys of records, and prefixes of them: one for each noun of docs/internals/architecture.md, Keys.

func MetaKey(name string) Key                { return NewKey(TagMeta).Str(name) }
func ClientKey(id string) Key                { return NewKey(TagClient).Str(id) }
func UserKey(id secret.ID) Key               { return NewKey(TagUser).ID(id) }
func UserNameKey(name string) Key            { return NewKey(TagUserName).Str(name) }
func AccountKey(id string) Key               { return NewKey(TagAccount).Str(id) }
func AccountUsersKey(account string) Key     { return NewKey(TagAccountUser).Str(account) }
func AlarmKey(name string) Key               { return NewKey(TagAlarm).Str(name) }
func CertificateKey(name string) Key         { return NewKey(TagCertificate).Str(name) }
func SessionKey(h secret.Hash) Key           { return NewKey(TagSession).Hash(h) }
func FactorKey(user secret.ID) Key           { return NewKey(TagFactor).ID(user) }
func UserSessionsKey(user secret.ID) Key     { return NewKey(TagUserSession).ID(user) }
func DecidedKey(h secret.Hash) Key           { return NewKey(TagDecided).Hash(h) }
func CodeKey(h secret.Hash) Key              { return NewKey(TagCode).Hash(h) }
func AllUserCodesKey(user secret.ID) Key     { return NewKey(TagUserCode).ID(user) }
func UserCodesKey(u secret.ID, c string) Key { return AllUserCodesKey(u).Str(c) }
func UserConsentsKey(user secret.ID) Key     { return NewKey(TagConsent).ID(user) }
func ConsentKey(u secret.ID, c string) Key   { return UserConsentsKey(u).Str(c) }
func FamilyKey(id secret.ID) Key             { return NewKey(TagFamily).ID(id) }
func ClientFamiliesKey(client string) Key    { return NewKey(TagClientFamily).Str(client) }
func UserFamiliesKey(user secret.ID) Key     { return NewKey(TagUserFamily).ID(user) }
func AccessTokenKey(h secret.Hash) Key       { return NewKey(TagAccessToken).Hash(h) }
func RefreshTokenKey(h secret.Hash) Key      { return NewKey(TagRefreshToken).Hash(h) }
func ImportedTokenKey(h secret.Hash) Key     { return NewKey(TagImported).Hash(h) }
func EventHeadKey(owner string) Key          { return NewKey(TagEventHead).Str(owner) }
func EventForeignKey(owner, id string) Key   { return NewKey(TagEventForeign).Str(owner).Str(id) }
func KnownTypesKey(owner string) Key         { return NewKey(TagKnownType).Str(owner) }
func ResourcesKey(owner, kind string) Key    { return NewKey(TagResource).Str(owner).Str(kind) }
func CountsKey(owner string, grain byte) Key { return append(NewKey(TagCounts).Str(owner), grain) }
func RingKey(grain byte) Key                 { return append(NewKey(TagRing), grain) }
func SignInKey(user secret.ID) Key           { return NewKey(TagSignIn).ID(user) }
func ClientUseKey(id string) Key             { return NewKey(TagClientUse).Str(id) }
func FeedKey(p Position) Key                 { return Key(nil).Feed(p) }
func ResourceKey(owner, kind, id string) Key { return ResourcesKey(owner, kind).Str(id) }
func WebhookIDKey(id secret.ID) Key          { return NewKey(TagWebhookID).ID(id) }
func WebhooksKey(tag byte, owner string) Key { return NewKey(tag).Str(owner) } // of any of the tags that an account leads
