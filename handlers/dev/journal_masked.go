package dev

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store/secret"
)

// Mask returns the text that stands for a secret. Equal secrets have equal masks.
func Mask(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "[masked:" + hex.EncodeToString(sum[:4]) + "]"
}

// secretWords are what the name of a secret contains, when only its letters and
// digits are compared.
var secretWords = []string{"password", "passwd", "passphrase", "secret", "token", "verifier", "ticket", "cookie", "authorization", "assertion", "credential", "apikey"}

const nameSizeMax = 64 // bytes of a name that are compared

// isSecretName reports whether a parameter, member or header of that name has a secret.
func isSecretName(name string) bool {
	switch name { // most names of most requests
	case "Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Host", "Origin", "User-Agent", "client_id", "grant_type", "scope", "username":
		return false
	case "Authorization", "Cookie", "client_secret", "password", "refresh_token":
		return true
	}
	var b [nameSizeMax]byte
	folded := b[:0]
	for i := 0; i < len(name) && len(folded) < nameSizeMax; i++ {
		switch c := name[i]; {
		case c >= 'A' && c <= 'Z':
			folded = append(folded, c+'a'-'A')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			folded = append(folded, c)
		}
	}
	switch string(folded) {
	case "code", "authcode", "authorizationcode", "recoverycode", "setup", "pass", "pwd", "pw", "pin":
		return true
	case "tokentype", "tokentypehint", "authorizationendpoint", "tokenendpoint":
		return false
	}
	for _, word := range secretWords {
		if strings.Contains(string(folded), word) {
			return true
		}
	}
	return false
}

// A named secret of these sizes is found in other places too, as a whole text or
// within one. A shorter one may be an ordinary word, such as a user's name.
const (
	secretSizeCompared = 8  // bytes
	secretSizeSearched = 16 // bytes
)

// masker masks the secrets of one request. It knows those that were named, and finds
// copies of them in other places. A nil masker shows them.
type masker struct{ known []string }

// learn remembers a secret that the request named.
func (m *masker) learn(text string) {
	if m != nil && len(text) >= secretSizeCompared {
		m.known = append(m.known, text)
	}
}

// learnHeader remembers the secrets in an Authorization header.
func (m *masker) learnHeader(header string) {
	scheme, value, _ := strings.Cut(header, " ")
	if value = strings.TrimSpace(value); value == "" {
		m.learn(header)
		return
	}
	m.learn(value)
	if !strings.EqualFold(scheme, "Basic") {
		return
	}
	if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
		_, password, _ := strings.Cut(string(plain), ":")
		m.learn(password)
		m.learn(unescaped(password))
	}
}

// text masks what looks like a secret anywhere in a text.
func (m *masker) text(text string) string {
	if m == nil {
		return text
	}
	for _, known := range m.known {
		if text == known {
			return Mask(text)
		}
		if len(known) >= secretSizeSearched && strings.Contains(text, known) {
			text = strings.ReplaceAll(text, known, Mask(known))
		}
	}
	return maskTokens(maskPairs(text))
}

// named masks the value of a name, of an Authorization header all but the scheme.
func (m *masker) named(name, value string) string {
	if m == nil {
		return value
	}
	if name == "Authorization" {
		if scheme, credentials := web.AuthScheme(value); scheme != "" {
			if credentials != "" {
				credentials = " " + Mask(credentials)
			}
			return m.text(scheme) + credentials
		}
	}
	if name == "grant_type" {
		return maskTokens(value) // may be equal to a password
	}
	if value != "" && isSecretName(name) {
		return Mask(value)
	}
	return m.text(value)
}

var tokenKinds = []secret.Kind{secret.AccessToken, secret.RefreshToken, secret.Code, secret.ClientSecret, secret.SessionToken}

// maskTokens masks texts of our own forms, whole or cut off.
func maskTokens(text string) string {
	if !strings.Contains(text, "toll") {
		return text
	}
	for _, kind := range tokenKinds {
		for from := 0; ; {
			at := strings.Index(text[from:], string(kind))
			if at < 0 {
				break
			}
			at += from
			end := at + len(kind)
			for end < len(text) && isWord(text[end]) {
				end++
			}
			masked := Mask(text[at:end])
			text = text[:at] + masked + text[end:]
			from = at + len(masked)
		}
	}
	return text
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '_'
}

func isOfName(c byte) bool { return isWord(c) || c == '-' || c == '.' || c == '[' || c == ']' }

// maskPairs masks the values of secret names in a text such as a broken body, an
// address or a header: name=value, name: value and "name":"value".
func maskPairs(text string) string {
	if strings.IndexByte(text, '=') < 0 && strings.IndexByte(text, ':') < 0 {
		return text
	}
	var masked strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '=' && text[i] != ':' {
			continue
		}
		name := nameBefore(text[done:i])
		if strings.EqualFold(name, "name") { // of a part of multipart/form-data
			_, end := valueAt(text, i+1, false)
			part := strings.Trim(text[i+1:end], ` "'`)
			if gap := strings.Index(text[end:], "\r\n\r\n"); gap >= 0 && isSecretName(part) {
				from := end + gap + 4
				to := from + max(strings.Index(text[from:], "\r\n"), 0)
				if to == from {
					to = len(text)
				}
				masked.WriteString(text[done:from] + Mask(text[from:to]))
				done, i = to, to-1
			}
			continue
		}
		if name == "" || !isSecretName(name) {
			continue
		}
		from, to := valueAt(text, i+1, strings.Contains(strings.ToLower(name), "authorization"))
		if from == to {
			continue
		}
		masked.WriteString(text[done:from] + Mask(text[from:to]))
		done, i = to, to-1
	}
	if done == 0 {
		return text
	}
	return masked.String() + text[done:]
}

// nameBefore returns the name that ends the text, without its quotes.
func nameBefore(text string) string {
	text = strings.TrimRight(text, " \t")
	text = strings.TrimRight(text, `"'`)
	start := len(text)
	for start > 0 && isOfName(text[start-1]) {
		start--
	}
	return text[start:]
}

// valueAt returns where the value at or after a place begins and ends, without its
// quotes.
func valueAt(text string, at int, wholeLine bool) (from, to int) {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
		at++
	}
	if at == len(text) {
		return at, at
	}
	if quote := text[at]; quote == '"' || quote == '\'' {
		for to = at + 1; to < len(text) && text[to] != quote; to++ {
			if text[to] == '\\' && to+1 < len(text) {
				to++
			}
		}
		return at + 1, min(to, len(text))
	}
	ends := "&;, \t\r\n\"'<>}])"
	if wholeLine {
		ends = "\r\n"
	}
	size := strings.IndexAny(text[at:], ends)
	if size < 0 {
		return at, len(text)
	}
	return at, at + size
}
