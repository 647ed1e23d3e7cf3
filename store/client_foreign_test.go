package store

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// Hashes of secrets by passlib, PHP and hashlib; testdata/foreign in store/secret has the programs.
var foreignSecrets = map[string]struct{ hash, right string }{
	"bcrypt":           {"$2a$10$O8FiKqUzy3mQXGlBx4hVhe3DDL9h3zQ4Oe0hM.pyGcy60EAV0BfP6", "correct horse battery staple é"},
	"bcrypt, cheap":    {"$2a$04$Bqriii12e9KfinuYScWI/uSRtXXzRKYM63MgVz8Uo1mBeGrMsKstm", "correct horse battery staple é"},
	"PBKDF2 of Django": {"pbkdf2_sha256$36000$seasalt$tON8srJeqclGMc3gl6t4qWxc8eZzElAyK0M5rHJSOxo=", "correct horse battery staple é"},
	"bcrypt of 72":     {"$2y$04$U/aN/x2iagom6HtEvl6J/Or7s2J3uDQb08GDtFwreVSquA7/vZ5m2", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
}

// Promise (Platform §11): a secret that was imported as a hash works; its first right use keeps the
// SHA-256 in place of it; wrong ones, the hash itself and junk behind 72 bytes change nothing
func TestForeignSecrets(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, err := Open(ctx, memkv.New(time.Now), Options{Now: time.Now, Key: secret.NewKey(nil), Hasher: secret.NewQuickHasher(), Lifetimes: DefaultLifetimes(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range foreignSecrets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, err := secret.ParseForeignSecret(snapshot.Text(of.hash))
			if err != nil || parsed.Text != of.hash {
				t.Fatalf("ParseForeignSecret = %+v, %v", parsed, err)
			}
			c, _, err := s.CreateClient(ctx, ClientSpec{Name: name, Grants: []string{"password"}})
			if err != nil {
				t.Fatal(err)
			}
			kept := func(change func(*Client)) (now Client) {
				err := s.db.Update(ctx, func(tx kv.Txn) (err error) {
					if now, err = readClient(tx, c.ID); err == nil && change != nil {
						change(&now)
						err = writeClient(tx, now)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return now
			}
			kept(func(c *Client) { c.secrets = []clientSecret{{foreign: parsed.Text, createdAt: s.Now()}} })
			admitted := 0
			ask := func(presented string) error {
				_, err := s.AuthenticateClient(ctx, c.ID, presented, func() (secret.Caller, error) { admitted++; return secret.Caller{}, nil })
				return err
			}
			for _, wrong := range []string{"", "wrong", of.hash, of.hash[7:], "wrong " + of.right} {
				if err := ask(wrong); !errors.Is(err, record.ErrMismatch) {
					t.Errorf("AuthenticateClient(%q) = %v, want %v", wrong, err, record.ErrMismatch)
				}
			}
			if name == "bcrypt of 72" {
				if err := ask(of.right + "junk"); err != nil || kept(nil).secrets[0].foreign == "" {
					t.Errorf("AuthenticateClient(junk behind 72 bytes) = %v, and the hash was replaced: %t", err, kept(nil).secrets[0].foreign == "")
				}
			}
			refused := errors.New("too many")
			if _, err := s.AuthenticateClient(ctx, c.ID, of.right, func() (secret.Caller, error) { return secret.Caller{}, refused }); !errors.Is(err, refused) {
				t.Errorf("AuthenticateClient not admitted = %v, want %v", err, refused)
			}
			if kept(nil).secrets[0].foreign == "" {
				t.Fatal("the hash was replaced before the first right use")
			}
			if err := ask(of.right); err != nil {
				t.Errorf("AuthenticateClient(right) = %v", err)
			}
			if got := kept(nil).secrets[0]; got.foreign != "" || !got.hash.Equal(secret.HashOf(of.right)) || kept(nil).Revision != c.Revision {
				t.Errorf("after the first right use %+v is kept", got)
			}
			admitted = 0
			if err := ask(of.right); err != nil || admitted != 0 {
				t.Errorf("AuthenticateClient again = %v, after %d dear checks", err, admitted)
			}
			if err := ask(of.right + "junk"); !errors.Is(err, record.ErrMismatch) || admitted != 0 {
				t.Errorf("AuthenticateClient(junk) = %v, after %d dear checks", err, admitted)
			}
		})
	}
}
