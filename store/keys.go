package store

import (
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// The tags: the first byte of every key says what kind of record it names. They
// are written on people's disks, so they never change their meaning.
const (
	tagMeta          = 'm' // str(name)
	tagClient        = 'c' // str(client_id)
	tagUser          = 'u' // id16
	tagUserName      = 'U' // str(canonical name) → id16
	tagAccount       = 'a' // str(account_id)
	tagSession       = 's' // h32
	tagUserSession   = 'S' // id16 h32
	tagDecided       = 'd' // h32
	tagCode          = 'k' // h32
	tagUserCode      = 'K' // id16 str(client_id) h32
	tagFamily        = 'f' // id16
	tagClientFamily  = 'F' // str(client_id) id16
	tagUserFamily    = 'W' // id16 id16
	tagAccessToken   = 't' // h32
	tagRefreshToken  = 'r' // h32
	tagAudit         = 'l' // pos16
	tagEventHead     = 'h' // str(owner)
	tagEvent         = 'e' // str(owner) pos16, in the first part of a log (event_part.go)
	tagEventType     = 'y' // str(owner) str(type) pos16, in the first part
	tagEventResource = 'z' // str(owner) str(resource) pos16, in the first part
	tagLogPart       = 'E' // start6 str(owner), and one of those three without its owner
	tagEventForeign  = 'x' // str(owner) str(id) → pos16
	tagKnownType     = 'n' // str(owner) str(type)
	tagResource      = 'o' // str(owner) str(kind) str(id)
	tagCertificate   = 'v' // str(name)
)

// key builds one key, part by part.
type key []byte

func newKey(tag byte) key { return append(make(key, 0, 96), tag) }

// str appends a text and its end. The end sorts before every letter, so "ab"
// lies before "abc", and no text can reach into its neighbour's range: that
// rests on the NUL that no text may hold, which is refused at the border.
func (k key) str(text string) key {
	if strings.IndexByte(text, 0) >= 0 {
		panic("store: NUL in a key component")
	}
	return append(append(k, text...), 0)
}

func (k key) id(id secret.ID) key     { return append(k, id[:]...) }
func (k key) hash(h secret.Hash) key  { return append(k, h[:]...) }
func (k key) position(p Position) key { return append(k, p[:]...) }
func (k key) all() kv.Range           { return kv.Range{Lo: k, Hi: after(k)} }
func (k key) from(lo key) kv.Range    { return kv.Range{Lo: lo, Hi: after(k)} }
func cutString(k []byte) (string, []byte) { // the reverse of str
	text, rest, _ := strings.Cut(string(k), "\x00")
	return text, []byte(rest)
}

// after returns the first key past all that begin with prefix, or nil when
// there is none.
func after(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			next := append([]byte(nil), prefix[:i+1]...)
			next[i]++
			return next
		}
	}
	return nil
}

func metaKey(name string) key                { return newKey(tagMeta).str(name) }
func clientKey(id string) key                { return newKey(tagClient).str(id) }
func userKey(id secret.ID) key               { return newKey(tagUser).id(id) }
func userNameKey(name string) key            { return newKey(tagUserName).str(name) }
func accountKey(id string) key               { return newKey(tagAccount).str(id) }
func certificateKey(name string) key         { return newKey(tagCertificate).str(name) }
func sessionKey(h secret.Hash) key           { return newKey(tagSession).hash(h) }
func userSessionsKey(user secret.ID) key     { return newKey(tagUserSession).id(user) }
func decidedKey(h secret.Hash) key           { return newKey(tagDecided).hash(h) }
func codeKey(h secret.Hash) key              { return newKey(tagCode).hash(h) }
func userCodesKey(u secret.ID, c string) key { return newKey(tagUserCode).id(u).str(c) }
func familyKey(id secret.ID) key             { return newKey(tagFamily).id(id) }
func clientFamiliesKey(client string) key    { return newKey(tagClientFamily).str(client) }
func userFamiliesKey(user secret.ID) key     { return newKey(tagUserFamily).id(user) }
func accessTokenKey(h secret.Hash) key       { return newKey(tagAccessToken).hash(h) }
func refreshTokenKey(h secret.Hash) key      { return newKey(tagRefreshToken).hash(h) }
func eventHeadKey(owner string) key          { return newKey(tagEventHead).str(owner) }
func eventForeignKey(owner, id string) key   { return newKey(tagEventForeign).str(owner).str(id) }
func knownTypesKey(owner string) key         { return newKey(tagKnownType).str(owner) }
func resourcesKey(owner, kind string) key    { return newKey(tagResource).str(owner).str(kind) }
func resourceKey(owner, kind, id string) key { return resourcesKey(owner, kind).str(id) }
