// Package encryption encrypts backups for the people who may read them, in the format of age
// (age-encryption.org/v1): age's own program decrypts what it writes, and it decrypts what
// that program writes. There are no passphrases, because nobody is there to type one when a
// backup is due, and no plugins, because they are programs.
//
// No error repeats a key: what was given as a public key may be a secret one.
package encryption

import (
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
)

// RecipientsMax is how many keys a backup may be encrypted for.
const RecipientsMax = 20

// Recipients are the public keys that a backup is encrypted for; nil for a plain backup.
type Recipients struct {
	keys  []age.Recipient
	texts []string
}

// Keys returns the keys as they were given. r may be nil.
func (r *Recipients) Keys() []string {
	if r == nil {
		return nil
	}
	return r.texts
}

// Identities are secret keys that decrypt backups.
type Identities []age.Identity

// KeyError says what is wrong with a key, and never repeats it.
type KeyError struct {
	Index  int // of the key, from 0; -1 if it is about all of them
	Reason string
	Hint   string
}

func (e *KeyError) Error() string { return e.Reason }

const hintKinds = "give public keys: age1… of age-keygen, age1pq1…, ssh-ed25519 … or ssh-rsa …"

// ParseRecipients parses public keys. Errors: *KeyError.
func ParseRecipients(texts []string) (*Recipients, error) {
	if len(texts) > RecipientsMax {
		return nil, &KeyError{Index: -1, Reason: fmt.Sprintf("there are %d recipients, and a backup can have %d", len(texts), RecipientsMax), Hint: "leave some out"}
	}
	r, quantum := &Recipients{texts: texts}, 0
	for i, text := range texts {
		key, err := parseRecipient(text)
		if err != nil {
			return nil, &KeyError{Index: i, Reason: err.Error(), Hint: hintKinds}
		}
		if _, is := key.(*age.HybridRecipient); is {
			quantum++
		}
		r.keys = append(r.keys, key)
	}
	if quantum != 0 && quantum != len(texts) {
		return nil, &KeyError{Index: -1, Reason: "recipients of the kind age1pq1 cannot be mixed with other kinds, which a quantum computer could decrypt", Hint: "give only age1pq1 keys, or none"}
	}
	return r, nil
}

func parseRecipient(text string) (key age.Recipient, err error) {
	kind, _, isSSH := strings.Cut(text, " ")
	switch {
	case IsSecret(text):
		return nil, errors.New("it is a secret key (an identity), and the server must have none")
	case strings.HasPrefix(text, "age1pq1"):
		key, err = age.ParseHybridRecipient(text)
	case strings.HasPrefix(text, "age1") && strings.LastIndexByte(text, '1') > len("age"):
		return nil, errors.New("it is for a plugin of age, and plugins are not supported")
	case strings.HasPrefix(text, "age1"):
		key, err = age.ParseX25519Recipient(text)
	case isSSH && (kind == "ssh-ed25519" || kind == "ssh-rsa"):
		if key, err = agessh.ParseRecipient(text); err != nil {
			return nil, errors.New("it is not a usable SSH key: it is cut off, misspelled, or an RSA key of fewer than 2048 bits")
		}
	default:
		return nil, errors.New("it is a key of an unknown kind")
	}
	if err != nil {
		return nil, errors.New("its checksum does not match: it is cut off or misspelled")
	}
	return key, nil
}

// IsSecret reports whether a text has a secret key.
func IsSecret(text string) bool {
	upper := strings.ToUpper(text)
	return strings.Contains(upper, "AGE-SECRET-KEY-") || strings.HasPrefix(upper, "AGE-PLUGIN-") || strings.Contains(upper, "PRIVATE KEY-----")
}

// ParseIdentities parses a file of secret keys, as age and ssh-keygen write them. Errors:
// *KeyError; its Index is that of the line.
func ParseIdentities(text string) (Identities, error) {
	const hint = "name a file with secret keys of age, or a private SSH key without a passphrase"
	if FormOf([]byte(text)) != Plain {
		return nil, &KeyError{Index: -1, Reason: "it is encrypted itself", Hint: "decrypt it on the way: age -d key.age | tollhouse … --identity -"}
	}
	if strings.HasPrefix(strings.TrimSpace(text), "-----BEGIN ") {
		key, err := agessh.ParseIdentity([]byte(text))
		switch {
		case err != nil && strings.Contains(err.Error(), "passphrase"):
			return nil, &KeyError{Index: -1, Reason: "it has a passphrase", Hint: "make a copy without one: ssh-keygen -p -f COPY"}
		case err != nil:
			return nil, &KeyError{Index: -1, Reason: "it is not a usable private SSH key", Hint: hint}
		}
		return Identities{key}, nil
	}
	var keys Identities
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		parsed, err := age.ParseIdentities(strings.NewReader(line))
		if err != nil {
			reason := "it is not a secret key of age"
			if strings.HasPrefix(line, "age1") || strings.HasPrefix(line, "ssh-") {
				reason = "it is a public key (a recipient), which cannot decrypt"
			}
			return nil, &KeyError{Index: i, Reason: reason, Hint: hint}
		}
		keys = append(keys, parsed...)
	}
	if len(keys) == 0 {
		return nil, &KeyError{Index: -1, Reason: "it has no secret key", Hint: hint}
	}
	return keys, nil
}
