package secret

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tollhouse/store/snapshot"
)

// objectForm is a kind of object that is told by its member scheme.
type objectForm struct {
	members []string // besides scheme; the last optional ones may be absent
	needed  int      // how many of them may not
	parse   func(o object) (foreignHash, error)
}

var objectForms = map[string]objectForm{
	"pbkdf2-sha1":   {[]string{"iterations", "salt", "key"}, 3, parsePBKDF2Object("sha1")},
	"pbkdf2-sha256": {[]string{"iterations", "salt", "key"}, 3, parsePBKDF2Object("sha256")},
	"pbkdf2-sha512": {[]string{"iterations", "salt", "key"}, 3, parsePBKDF2Object("sha512")},
	"aspnet":        {[]string{"hash"}, 1, parseASPNET},
	"symfony":       {[]string{"algorithm", "hash", "iterations", "base64", "salt"}, 3, parseSymfony},
	"digest":        {[]string{"algorithm", "hash", "salt", "salt_first", "base64"}, 2, parseDigest},
}

// object has the members of a hash, and the first failure to read one.
type object struct {
	v   snapshot.Value
	err error
}

// parseForeignObject reads an object with a member scheme.
func parseForeignObject(v snapshot.Value) (foreignHash, error) {
	o := object{v: v}
	name := o.text("scheme")
	form, known := objectForms[name]
	if !known {
		return foreignHash{}, errors.New("has no member scheme with a method that is taken")
	}
	for _, m := range v.Members() {
		if m.Name != "scheme" && !slices.Contains(form.members, m.Name) {
			return foreignHash{}, fmt.Errorf("has a member that is none of scheme, %s", strings.Join(form.members, ", "))
		}
	}
	for _, needed := range form.members[:form.needed] {
		if _, ok := v.Member(needed); !ok {
			return foreignHash{}, fmt.Errorf("has no member %s", needed)
		}
	}
	return form.parse(o)
}

// text, number and flag return a member, or the zero value of one that is absent or null.

func (o *object) text(name string) string {
	v, _ := o.v.Member(name)
	o.must(name, v, snapshot.String)
	if v.Kind() != snapshot.String {
		return ""
	}
	return v.Text()
}

func (o *object) number(name string) uint32 {
	v, _ := o.v.Member(name)
	n, ok := number(v.Text())
	if o.must(name, v, snapshot.Number); !ok && o.err == nil {
		o.err = fmt.Errorf("has a member %s that is no whole number in range", name)
	}
	return n
}

func (o *object) flag(name string) bool {
	v, _ := o.v.Member(name)
	o.must(name, v, snapshot.Bool)
	return v.Kind() == snapshot.Bool && v.Text() == "true"
}

func (o *object) must(name string, v snapshot.Value, kind snapshot.Kind) {
	if v.Kind() != kind && v.Kind() != snapshot.Null && o.err == nil {
		o.err = fmt.Errorf("has a member %s that is not %s", name, kind)
	}
}

// bytes decodes a text in base64, or in hexadecimal.
func (o *object) bytes(name string, isBase64 bool) []byte {
	decode, how := hex.DecodeString, "hexadecimal"
	if isBase64 {
		decode, how = fromBase64, "base64"
	}
	b, err := decode(o.text(name))
	if (err != nil || len(b) == 0) && o.err == nil {
		o.err = fmt.Errorf("has a member %s that is not in %s", name, how)
	}
	return b
}

func parsePBKDF2Object(digest string) func(object) (foreignHash, error) {
	return func(o object) (foreignHash, error) {
		h := foreignHash{scheme: schemes["pbkdf2-"+digest], salt: o.bytes("salt", true), key: o.bytes("key", true)}
		h.cost[0], h.size = o.number("iterations"), uint32(len(h.key))
		return h, o.err
	}
}

const (
	aspnet2Salt       = 16
	aspnet2Key        = 32
	aspnet2Iterations = 1000
	aspnet3Head       = 13 // the version, the digest, the iterations and the size of the salt
)

// parseASPNET reads the text of ASP.NET Core Identity's PasswordHasher, version 2 or 3.
func parseASPNET(o object) (h foreignHash, err error) {
	errVersion := errors.New("has a hash that is not of version 2 or 3 of ASP.NET Identity")
	b := o.bytes("hash", true)
	switch {
	case o.err != nil:
		return h, o.err
	case b[0] == 0 && len(b) == 1+aspnet2Salt+aspnet2Key:
		h.scheme, h.cost[0] = schemes["pbkdf2-sha1"], aspnet2Iterations
		b, h.salt = b[1+aspnet2Salt:], b[1:1+aspnet2Salt]
	case b[0] == 1 && len(b) > aspnet3Head:
		digest, size := binary.BigEndian.Uint32(b[1:]), binary.BigEndian.Uint32(b[9:])
		names := []string{"pbkdf2-sha1", "pbkdf2-sha256", "pbkdf2-sha512"}
		if digest >= uint32(len(names)) || size == 0 || uint64(size) >= uint64(len(b)-aspnet3Head) {
			return h, errVersion
		}
		h.scheme, h.cost[0] = schemes[names[digest]], binary.BigEndian.Uint32(b[5:])
		b, h.salt = b[aspnet3Head+size:], b[aspnet3Head:aspnet3Head+size]
	default:
		return h, errVersion
	}
	h.key, h.size = b, uint32(len(b))
	return h, nil
}

// parseSymfony reads the columns of FOSUserBundle, and what the configuration of Symfony says.
func parseSymfony(o object) (h foreignHash, err error) {
	h.salt, h.key = []byte(o.text("salt")), o.bytes("hash", o.flag("base64"))
	h.cost[0] = o.number("iterations")
	if o.err != nil {
		return h, o.err
	}
	if strings.ContainsAny(string(h.salt), "{}") {
		return h, errors.New("has a salt with a brace, which Symfony refuses")
	}
	return h.withDigest("symfony-", o.text("algorithm"), "")
}

// parseDigest reads the digest of a password and perhaps a salt.
func parseDigest(o object) (h foreignHash, err error) {
	h.salt, h.key = []byte(o.text("salt")), o.bytes("hash", o.flag("base64"))
	after := ""
	if o.flag("salt_first") {
		after = "-salt-first"
	}
	algorithm := o.text("algorithm")
	if o.err != nil {
		return h, o.err
	}
	return h.withDigest("digest-", algorithm, after)
}

func (h foreignHash) withDigest(before, algorithm, after string) (foreignHash, error) {
	if h.scheme = schemes[before+algorithm+after]; digests[algorithm] == nil || h.scheme == nil {
		return foreignHash{}, errors.New("has an algorithm other than md5, sha1, sha256 and sha512")
	}
	h.size = uint32(len(h.key))
	return h, nil
}
