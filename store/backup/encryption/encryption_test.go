package encryption

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"tollhouse/store/backup"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// pair is a public key and the file of its secret key.
type pair struct{ public, secret string }

func pairs(t testing.TB) map[string]pair {
	t.Helper()
	x, h := must.Get(age.GenerateX25519Identity())(t), must.Get(age.GenerateHybridIdentity())(t)
	edPublic, ed, err := ed25519.GenerateKey(nil)
	must.Do(t, err)
	r := must.Get(rsa.GenerateKey(nil, 2048))(t)
	return map[string]pair{
		"age1":        {x.Recipient().String(), "# created: today\n" + x.String() + "\r\n"},
		"age1pq1":     {h.Recipient().String(), h.String()},
		"ssh-ed25519": {sshKey("ssh-ed25519", edPublic), privateKey(t, ed)},
		"ssh-rsa":     {sshKey("ssh-rsa", big.NewInt(int64(r.E)).Bytes(), append([]byte{0}, r.N.Bytes()...)), privateKey(t, r)},
	}
}

// sshKey is a line of id_….pub.
func sshKey(kind string, parts ...[]byte) string {
	var wire []byte
	for _, part := range append([][]byte{[]byte(kind)}, parts...) {
		wire = append(binary.BigEndian.AppendUint32(wire, uint32(len(part))), part...)
	}
	return kind + " " + base64.StdEncoding.EncodeToString(wire) + " harriet@example"
}

func privateKey(t testing.TB, key any) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(key))(t)}))
}

func encrypted(t testing.TB, plain []byte, to ...string) []byte {
	t.Helper()
	var file bytes.Buffer
	w := must.Get(NewWriter(&file, must.Get(ParseRecipients(to))(t)))(t)
	must.Get(w.Write(plain))(t)
	must.Do(t, w.Close())
	return file.Bytes()
}

func decrypted(file []byte, with Identities) ([]byte, error) {
	form, in := Peek(bytes.NewReader(file))
	if form == Plain {
		return nil, errors.New("it is plain")
	}
	plain, err := NewReader(in, form, with)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(plain)
}

// ageTool runs Debian's age.
func ageTool(t *testing.T, stdin []byte, args ...string) []byte {
	t.Helper()
	_, err := exec.LookPath("age")
	must.Have(t, err == nil, "Debian's package age")
	cmd := exec.Command("age", args...)
	var errs strings.Builder
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("age %v: %v, %s", args, err, &errs)
	}
	return out
}

// Promise (Guard §10): backups are encrypted for keys of age and SSH; age's own program decrypts them
// byte for byte, and its files are taken, armored too
func TestAgeAndTollhouseReadEachOther(t *testing.T) {
	t.Parallel()
	plain := bytes.Repeat([]byte("tollbak\n and more, "), 9000) // three chunks
	for kind, p := range pairs(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			with := must.Get(ParseIdentities(p.secret))(t)
			file := encrypted(t, plain, p.public)
			if got, err := decrypted(file, with); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("decrypted: %d bytes, %v, want %d", len(got), err, len(plain))
			}
			if n, err := CountRecipients(bytes.NewReader(file), Binary); n != 1 || err != nil {
				t.Errorf("CountRecipients() = %d, %v, want 1", n, err)
			}
			if kind == "age1pq1" {
				return // age of Debian is older
			}
			key := filepath.Join(t.TempDir(), "key")
			must.Do(t, os.WriteFile(key, []byte(p.secret), 0o600))
			if got := ageTool(t, file, "-d", "-i", key); !bytes.Equal(got, plain) {
				t.Errorf("age -d returns %d bytes, want the %d of the plain file", len(got), len(plain))
			}
			for form, args := range map[Form][]string{Binary: {"-r", p.public}, Armored: {"-a", "-r", p.public}} {
				theirs := ageTool(t, plain, args...)
				if got, err := decrypted(theirs, with); FormOf(theirs) != form || err != nil || !bytes.Equal(got, plain) {
					t.Errorf("age %v: form %d, %d bytes, %v; want form %d and %d bytes", args, FormOf(theirs), len(got), err, form, len(plain))
				}
			}
		})
	}
	t.Run("several", func(t *testing.T) {
		t.Parallel()
		all := pairs(t)
		file := encrypted(t, plain, all["age1"].public, all["ssh-rsa"].public, all["ssh-ed25519"].public)
		if n, err := CountRecipients(bytes.NewReader(file), Binary); n != 3 || err != nil {
			t.Errorf("CountRecipients() = %d, %v, want 3", n, err)
		}
		for _, kind := range []string{"age1", "ssh-rsa", "ssh-ed25519"} {
			if got, err := decrypted(file, must.Get(ParseIdentities(all[kind].secret))(t)); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("the key %s does not decrypt it: %v", kind, err)
			}
		}
		_, err := decrypted(file, append(must.Get(ParseIdentities(pairs(t)["age1"].secret))(t), must.Get(ParseIdentities(all["age1pq1"].secret))(t)...))
		if !errors.Is(err, ErrNoIdentity) {
			t.Errorf("with other keys: %v, want ErrNoIdentity", err)
		}
	})
}

// Promise (Guard §10): a recipient that is misspelled, of a plugin, of an unknown kind, mixed with
// age1pq1 or a secret key is refused at the start and never repeated
func TestRecipientsThatAreRefused(t *testing.T) {
	t.Parallel()
	all := pairs(t)
	x, h := all["age1"], all["age1pq1"]
	secret := strings.Fields(x.secret)[3]
	many := make([]string, RecipientsMax+1)
	for i := range many {
		many[i] = x.public
	}
	small := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 1023, 1), E: 65537}
	for name, c := range map[string]struct {
		keys  []string
		index int
		says  string
	}{
		"checksum":       {[]string{x.public, storetest.Bent(x.public)}, 1, "checksum"},
		"cut":            {[]string{x.public[:40]}, 0, "checksum"},
		"checksum_of_pq": {[]string{h.public[:len(h.public)-1]}, 0, "checksum"},
		"plugin":         {[]string{"age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t"}, 0, "plugin"},
		"unknown":        {[]string{"rot13"}, 0, "unknown kind"},
		"empty":          {[]string{""}, 0, "unknown kind"},
		"ecdsa":          {[]string{"ecdsa-sha2-nistp256 AAAA"}, 0, "unknown kind"},
		"ssh_cut":        {[]string{all["ssh-ed25519"].public[:40]}, 0, "SSH key"},
		"rsa_1024":       {[]string{sshKey("ssh-rsa", big.NewInt(int64(small.E)).Bytes(), append([]byte{0}, small.N.Bytes()...))}, 0, "2048 bits"},
		"mixed":          {[]string{x.public, h.public}, -1, "mixed"},
		"secret":         {[]string{secret}, 0, "secret key"},
		"secret_folded":  {[]string{" " + strings.ToLower(secret)}, 0, "secret key"},
		"private_ssh":    {[]string{all["ssh-ed25519"].secret}, 0, "secret key"},
		"too_many":       {many, -1, "21 recipients"},
	} {
		var wrong *KeyError
		_, err := ParseRecipients(c.keys)
		if !errors.As(err, &wrong) || wrong.Index != c.index || !strings.Contains(wrong.Reason, c.says) || wrong.Hint == "" {
			t.Errorf("%s: %v, want a KeyError of key %d that says %q", name, err, c.index, c.says)
			continue
		}
		for _, key := range c.keys {
			if key = strings.TrimSpace(key); len(key) > 16 && strings.Contains(strings.ToUpper(wrong.Reason+wrong.Hint), strings.ToUpper(key[len(key)-16:])) {
				t.Errorf("%s: the error repeats the key: %s", name, wrong.Reason)
			}
		}
	}
}

func TestIdentitiesThatAreRefused(t *testing.T) {
	t.Parallel()
	all := pairs(t)
	secret := strings.Fields(all["age1"].secret)[3]
	locked := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: []byte("x")})
	for name, c := range map[string]struct {
		text, says string
		index      int
	}{
		"none":           {"# a comment\n", "no secret key", -1},
		"public":         {"\n" + all["age1"].public, "public key", 1},
		"public_ssh":     {all["ssh-rsa"].public, "public key", 0},
		"misspelled":     {storetest.Bent(secret), "not a secret key", 0},
		"plugin":         {"AGE-PLUGIN-YUBIKEY-1QQPSZ", "not a secret key", 0},
		"ssh":            {"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "not a usable private SSH key", -1},
		"passphrase":     {string(locked), "passphrase", -1},
		"encrypted_file": {string(encrypted(t, []byte(secret), all["age1"].public)), "encrypted itself", -1},
	} {
		var wrong *KeyError
		_, err := ParseIdentities(c.text)
		if !errors.As(err, &wrong) || wrong.Index != c.index || !strings.Contains(wrong.Reason, c.says) {
			t.Errorf("%s: %v, want a KeyError of line %d that says %q", name, err, c.index, c.says)
		} else if strings.Contains(wrong.Reason+wrong.Hint, secret[20:30]) {
			t.Errorf("%s: the error repeats the key: %s", name, wrong.Reason)
		}
	}
}

// TestFormIsToldByContent: the first bytes, however few there are.
func TestFormIsToldByContent(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]Form{
		"": Plain, "tollbak\n": Plain, "x": Plain, "a": Binary, "age-encr": Binary, "age-encryption.org/v1\n-> X25519": Binary, "age-encryption.com/": Plain,
		"-----BEGIN AGE": Armored, "-----BEGIN AGE ENCRYPTED FILE-----\nYWdl": Armored, "-----BEGIN PRIVATE KEY-----\nYWdlLWVuY3J5cHRp": Plain,
	} {
		if got := FormOf([]byte(head)); got != want {
			t.Errorf("FormOf(%q) = %d, want %d", head, got, want)
		}
	}
}

// Promise (Guard §10): what was encrypted with a passphrase, or has an endless header, is refused in
// bounded memory
func TestHostileHeaders(t *testing.T) {
	t.Parallel()
	with := must.Get(ParseIdentities(pairs(t)["age1"].secret))(t)
	var file bytes.Buffer
	scrypt := must.Get(age.NewScryptRecipient("larkspur"))(t)
	scrypt.SetWorkFactor(5)
	must.Do(t, must.Get(age.Encrypt(&file, scrypt))(t).Close())
	if _, err := decrypted(file.Bytes(), with); !errors.Is(err, ErrPassphrase) {
		t.Errorf("with a passphrase: %v, want ErrPassphrase", err)
	}
	for name, line := range map[string]string{"one_line": "x", "stanzas": "AAAA\n\n-> X25519 ", "a_body": "AAAA\n" + strings.Repeat("A", 64) + "\n"} {
		rest := &repeated{text: line, left: 64 << 20}
		if _, err := NewReader(io.MultiReader(strings.NewReader("age-encryption.org/v1\n-> X25519 "), rest), Binary, with); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", name, err)
		}
		if read := 64<<20 - rest.left; read > headerSizeMax {
			t.Errorf("%s: %d bytes were read, want at most %d", name, read, headerSizeMax)
		}
	}
}

// TestAReaderThatFailsIsNoDamage: an error of the disk is told as such.
func TestAReaderThatFailsIsNoDamage(t *testing.T) {
	t.Parallel()
	p, broken := pairs(t)["age1"], errors.New("input/output error")
	file := encrypted(t, make([]byte, 200_000), p.public)
	for _, at := range []int{50, 150_000} {
		form, in := Peek(io.MultiReader(bytes.NewReader(file[:at]), failing{broken}))
		plain, err := NewReader(in, form, must.Get(ParseIdentities(p.secret))(t))
		if err == nil {
			_, err = io.Copy(io.Discard, plain)
		}
		if !errors.Is(err, broken) {
			t.Errorf("a reader that fails at byte %d: %v, want %v", at, err, broken)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// repeated is a text, over and over.
type repeated struct {
	text string
	at   int
	left int
}

func (r *repeated) Read(b []byte) (n int, err error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	for ; n < len(b) && r.left > 0; n++ {
		b[n] = r.text[r.at%len(r.text)]
		r.at++
		r.left--
	}
	return n, nil
}
