package record

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// inRange reports whether a key is in a range.
func inRange(r kv.Range, k []byte) bool {
	return bytes.Compare(k, r.Lo) >= 0 && (r.Hi == nil || bytes.Compare(k, r.Hi) < 0)
}

// withoutNUL makes a text fit for a key, as callers do.
func withoutNUL(text string) string { return strings.ReplaceAll(text, "\x00", "") }

// FuzzKeysOfTexts: the parts of every key of texts can be read back, two keys sort as
// their parts do, and a range over one prefix holds the keys under it and no others. No
// owner, type or name can be chosen so that it reaches into another's.
func FuzzKeysOfTexts(f *testing.F) {
	f.Add("a", "b\x01c", "a\x01b", "c")
	f.Add("a", "", "", "a")
	f.Add("acct_1", "customer.created", "acct_10", "customer.created")
	f.Add("\xff", "\xff\xff", "\xff\xff", "\xff")
	f.Fuzz(func(t *testing.T, owner, name, otherOwner, otherName string) {
		owner, name, otherOwner, otherName = withoutNUL(owner), withoutNUL(name), withoutNUL(otherOwner), withoutNUL(otherName)
		forms := map[string]func(owner, name string) Key{
			"foreign id": EventForeignKey,
			"known type": func(o, n string) Key { return KnownTypesKey(o).Str(n) },
			"resources":  ResourcesKey,
		}
		for form, build := range forms {
			k, other := build(owner, name), build(otherOwner, otherName)
			gotOwner, rest := CutString(k[1:])
			gotName, rest := CutString(rest)
			if gotOwner != owner || gotName != name || len(rest) != 0 {
				t.Fatalf("%s key of %q %q comes back as %q %q and %d bytes", form, owner, name, gotOwner, gotName, len(rest))
			}
			want := cmp.Or(cmp.Compare(owner, otherOwner), cmp.Compare(name, otherName))
			if got := bytes.Compare(k, other); got != want {
				t.Fatalf("%s keys of %q %q and %q %q compare as %d, want %d", form, owner, name, otherOwner, otherName, got, want)
			}
			if inside := inRange(NewKey(k[0]).Str(owner).All(), other); inside != (owner == otherOwner) {
				t.Fatalf("%s key of owner %q is in the range of %q: %v", form, otherOwner, owner, inside)
			}
			if inside := inRange(k.All(), append(slices.Clone(other), 0xff)); inside != (owner == otherOwner && name == otherName) {
				t.Fatalf("%s key under %q %q is in the range of %q %q: %v", form, otherOwner, otherName, owner, name, inside)
			}
		}
	})
}

// FuzzKeysOfNames does the same for keys of one text and of three.
func FuzzKeysOfNames(f *testing.F) {
	f.Add("bob", "bob\x01", "a", "b", "c", "d")
	f.Add("", "\xff", "a", "", "", "a")
	f.Fuzz(func(t *testing.T, name, other, kind, id, otherKind, otherID string) {
		name, other, kind, id, otherKind, otherID = withoutNUL(name), withoutNUL(other), withoutNUL(kind), withoutNUL(id), withoutNUL(otherKind), withoutNUL(otherID)
		for form, build := range map[string]func(string) Key{
			"meta": MetaKey, "client": ClientKey, "user name": UserNameKey, "account": AccountKey, "certificate": CertificateKey, "event head": EventHeadKey,
			"client families": ClientFamiliesKey,
		} {
			k, otherKey := build(name), build(other)
			if got, rest := CutString(k[1:]); got != name || len(rest) != 0 {
				t.Fatalf("%s key of %q comes back as %q and %d bytes", form, name, got, len(rest))
			}
			if got, want := bytes.Compare(k, otherKey), cmp.Compare(name, other); got != want {
				t.Fatalf("%s keys of %q and %q compare as %d, want %d", form, name, other, got, want)
			}
			if inside := inRange(k.All(), append(slices.Clone(otherKey), 0xff)); inside != (name == other) {
				t.Fatalf("%s key under %q is in the range of %q: %v", form, other, name, inside)
			}
		}
		k, otherKey := ResourceKey(name, kind, id), ResourceKey(other, otherKind, otherID)
		want := cmp.Or(cmp.Compare(name, other), cmp.Compare(kind, otherKind), cmp.Compare(id, otherID))
		if got := bytes.Compare(k, otherKey); got != want {
			t.Fatalf("resource keys compare as %d, want %d", got, want)
		}
		if inside := inRange(ResourcesKey(name, kind).All(), otherKey); inside != (name == other && kind == otherKind) {
			t.Fatalf("resource of %q %q is in the range of %q %q: %v", other, otherKind, name, kind, inside)
		}
	})
}

// FuzzKeysOfIDs does the same for keys that end in fixed-size parts.
func FuzzKeysOfIDs(f *testing.F) {
	f.Add("a", []byte("0123456789abcdef"), "ab", []byte("fedcba9876543210"))
	f.Add("", bytes.Repeat([]byte{0xff}, 16), "", make([]byte, 16))
	f.Fuzz(func(t *testing.T, owner string, raw []byte, otherOwner string, otherRaw []byte) {
		owner, otherOwner = withoutNUL(owner), withoutNUL(otherOwner)
		var p, other Position
		copy(p[:], raw)
		copy(other[:], otherRaw)
		for form, build := range map[string]func(o string, p Position) Key{
			"client family": func(o string, p Position) Key { return ClientFamiliesKey(o).ID(secret.ID(p)) },
		} {
			k, otherKey := build(owner, p), build(otherOwner, other)
			if !bytes.Equal(k[len(k)-16:], p[:]) {
				t.Fatalf("%s key does not end in its position", form)
			}
			want := cmp.Or(cmp.Compare(owner, otherOwner), p.Compare(other))
			if got := bytes.Compare(k, otherKey); got != want {
				t.Fatalf("%s keys compare as %d, want %d", form, got, want)
			}
			if inside := inRange(NewKey(k[0]).Str(owner).All(), otherKey); inside != (owner == otherOwner) {
				t.Fatalf("%s key of owner %q is in the range of %q: %v", form, otherOwner, owner, inside)
			}
		}
		h, otherHash := secret.HashOf(owner), secret.HashOf(otherOwner)
		for form, build := range map[string]func(secret.ID) Key{
			"user": UserKey, "family": FamilyKey, "families of a user": UserFamiliesKey,
		} {
			k := build(secret.ID(p))
			if got := bytes.Compare(k, build(secret.ID(other))); got != p.Compare(other) || !bytes.Equal(k[1:], p[:]) {
				t.Fatalf("%s key is %x and compares as %d, want %x and %d", form, k, got, p, p.Compare(other))
			}
		}
		for form, build := range map[string]func(secret.Hash) Key{
			"session": SessionKey, "decided ticket": DecidedKey, "code": CodeKey, "access token": AccessTokenKey, "refresh token": RefreshTokenKey, "imported token": ImportedTokenKey,
		} {
			k, want := build(h), bytes.Compare(h[:], otherHash[:])
			if got := bytes.Compare(k, build(otherHash)); got != want || !bytes.Equal(k[1:], h[:]) {
				t.Fatalf("%s key is %x and compares as %d, want %x and %d", form, k, got, h, want)
			}
		}
		if got := UserSessionsKey(secret.ID(p)).Hash(h); !inRange(UserSessionsKey(secret.ID(p)).All(), got) || inRange(UserSessionsKey(secret.ID(p)).All(), UserSessionsKey(secret.ID(other)).Hash(h)) != (p == other) {
			t.Fatal("a user's sessions are in another user's range")
		}
		codes, others := UserCodesKey(secret.ID(p), owner), UserCodesKey(secret.ID(other), otherOwner)
		if !inRange(codes.All(), slices.Clone(codes).Hash(h)) || inRange(codes.All(), others.Hash(h)) != (p == other && owner == otherOwner) {
			t.Fatal("the codes that a user gave to a client are in the range of another user or client")
		}
	})
}

func TestKeyTagsDiffer(t *testing.T) {
	t.Parallel()
	tags := []byte{TagMeta, TagClient, TagUser, TagUserName, TagAccount, TagSession, TagUserSession, TagDecided, TagCode, TagUserCode, TagFamily, TagClientFamily,
		TagUserFamily, TagAccessToken, TagRefreshToken, TagAudit, TagEventHead, TagEventForeign, TagKnownType, TagResource, TagCertificate, TagLog,
		TagCounts, TagRing, TagSignIn, TagClientUse,
		TagWebhook, TagWebhookID, TagWebhookSet, TagWebhookLine, TagFeed, TagImported, TagFactor, TagAlarm}
	// The letters are on users' disks: this text may grow, never change.
	if got := string(tags); got != "mcuUasSdkKfFWtrlhxnovEqgiIwbPLGTjJ" {
		t.Errorf("tags are %q", got)
	}
	slices.Sort(tags)
	if len(slices.Compact(tags)) != len("mcuUasSdkKfFWtrlhxnovEqgiIwbPLGTjJ") {
		t.Error("two nouns share a tag")
	}
}

func TestKeyRefusesNUL(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a key took a NUL, with which one name could reach into another's range")
		}
	}()
	EventForeignKey("a\x00b", "c")
}
