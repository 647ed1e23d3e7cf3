package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Hashes of oldPassword, by the libraries of testdata/foreign in store/secret.
const (
	oldPassword = "correct horse battery staple é"
	oldBcrypt   = "$2a$10$O8FiKqUzy3mQXGlBx4hVhe3DDL9h3zQ4Oe0hM.pyGcy60EAV0BfP6"
	oldPBKDF2   = "pbkdf2_sha256$120000$seasalt$L2KlG++dpfZgaMVmqjvM+WS1m6OvSh1FRQ6k3DiV2vM="
	oldCheap    = "$2a$04$Bqriii12e9KfinuYScWI/uSRtXXzRKYM63MgVz8Uo1mBeGrMsKstm"
)

// counted describes the imported hashes that the store counts.
func counted(t testing.TB, f *storetest.Fixture) string {
	t.Helper()
	found := must.Get(f.ImportedHashes(context.Background()))(t)
	var list []string
	for _, k := range found.Kinds {
		list = append(list, fmt.Sprintf("%s %t %d", k.Kind, k.Wrapped, k.Users))
	}
	return fmt.Sprintf("%d: %s", found.Users, strings.Join(list, ", "))
}

// TestImportedHashes: every change that ends an imported hash counts it out, in one Update.
//
// Promise (Platform §10): users with an imported hash are counted by kind, until the first right
// sign-in, a new password or their deletion; verify checks the counts
func TestImportedHashes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	f.User(t, "native", "acct_larkspur")
	if got := counted(t, f); got != "0: " {
		t.Errorf("a store without imported hashes counts %s", got)
	}
	for name, hash := range map[string]string{"harriet": oldBcrypt, "ida": oldBcrypt, "joan": oldPBKDF2, "kate": oldCheap, "lena": oldCheap} {
		f.ImportUser(t, name, "acct_larkspur", hash)
	}
	f.ImportUser(t, "ours", "acct_larkspur", must.Get(secret.NewHasher().Hash(ctx, secret.Caller{}, oldPassword))(t))
	f.Clock.Advance(40 * 24 * time.Hour)
	f.ImportUser(t, "mona", "acct_larkspur", oldBcrypt)
	mustSound := func() {
		t.Helper()
		if _, err := f.CheckAll(ctx); err != nil {
			t.Errorf("CheckAll() = %v", err)
		}
	}
	mustCount := func(want string) {
		t.Helper()
		if got := counted(t, f); got != want {
			t.Errorf("counted %s, want %s", got, want)
		}
		mustSound()
	}
	mustCount("6: bcrypt true 2, bcrypt-10 false 3, pbkdf2-sha256 false 1")
	if age := f.Now().Sub(must.Get(f.ImportedHashes(ctx))(t).Oldest); age < 40*24*time.Hour || age > 41*24*time.Hour {
		t.Errorf("the oldest is %v old, want 40 days", age)
	}

	must.Get(f.DisableUser(ctx, "ida"))(t)
	must.Get(f.RenameUser(ctx, "ida", "ivy"))(t)
	if _, err := f.AuthenticateUser(ctx, secret.Caller{}, "joan", "wrong"); !errors.Is(err, record.ErrMismatch) {
		t.Errorf("AuthenticateUser(wrong) = %v", err)
	}
	if _, err := f.AuthenticateUser(ctx, secret.Caller{}, "ivy", oldPassword); !errors.Is(err, record.ErrMismatch) {
		t.Errorf("AuthenticateUser(disabled) = %v", err)
	}
	mustCount("6: bcrypt true 2, bcrypt-10 false 3, pbkdf2-sha256 false 1")

	for range 2 { // the second is checked against ours
		must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "joan", oldPassword))(t)
		must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "ours", oldPassword))(t)
		must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "kate", oldPassword))(t)
		mustCount("4: bcrypt true 1, bcrypt-10 false 3")
	}
	must.Get(f.SetPassword(ctx, "harriet", storetest.Password))(t)
	mustCount("3: bcrypt true 1, bcrypt-10 false 2")
	must.Do(t, f.DeleteUser(ctx, "ivy"))
	mustCount("2: bcrypt true 1, bcrypt-10 false 1")
	_, code, err := f.CreateUserCode(ctx, "lena", 0)
	must.Do(t, err)
	mustCount("2: bcrypt true 1, bcrypt-10 false 1")
	must.Get(f.RedeemUserCode(ctx, store.UserCodeUse{Username: "lena", Code: code, Password: storetest.Password}))(t)
	mustCount("1: bcrypt-10 false 1")
	if age := f.Now().Sub(must.Get(f.ImportedHashes(ctx))(t).Oldest); age > 24*time.Hour {
		t.Errorf("the oldest is %v old, want that of today", age)
	}
	must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "mona", oldPassword))(t)
	mustCount("0: ")
}

// TestRefusalsOfImportedUsers measures loosely, and in the store, what TestTimesOfImportedUsers of
// handlers measures over a connection.
//
// Promise (Platform §10): while imported hashes are in the store, every refused sign-in takes as long
// as the dearest of them and a quarter more, whoever it names
func TestRefusalsOfImportedUsers(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	f.User(t, "native", "acct_larkspur")
	f.User(t, "disabled", "acct_larkspur")
	must.Get(f.DisableUser(ctx, "disabled"))(t)
	_, _, err := f.CreateUser(ctx, store.UserSpec{Username: "waits", Account: "acct_larkspur", Waits: true})
	must.Do(t, err)
	refused := func(name, password string) time.Duration {
		t.Helper()
		began := time.Now()
		if _, err := f.AuthenticateUser(ctx, secret.Caller{}, name, password); !errors.Is(err, record.ErrMismatch) {
			t.Errorf("AuthenticateUser(%q, %q) = %v, want %v", name, password, err, record.ErrMismatch)
		}
		return time.Since(began)
	}
	f.ImportUser(t, "dear", "acct_larkspur", oldBcrypt)
	f.ImportUser(t, "cheap", "acct_larkspur", oldCheap)
	must.Do(t, f.MeasureHashes(ctx))
	began := time.Now()
	must.Get(secret.NewQuickHasher().Verify(ctx, secret.Caller{}, oldBcrypt, "wrong"))(t)
	dear := time.Since(began)
	for _, name := range []string{"nobody", "native", "disabled", "waits", "dear", "cheap"} {
		for _, password := range []string{"wrong", "", storetest.Password} {
			if name == "native" && password == storetest.Password {
				continue
			}
			if took := refused(name, password); took < dear/20 { // it was measured on a busy machine
				t.Errorf("AuthenticateUser(%s, %q) took %v, want the %v of the dearest hash", name, password, took, dear)
			}
		}
	}
	must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "dear", oldPassword))(t)
	must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "cheap", oldPassword))(t)
	quickest := dear
	for range 5 {
		quickest = min(quickest, refused("nobody", "wrong"))
	}
	if quickest > dear/4 {
		t.Errorf("without imported hashes a refusal takes %v", quickest)
	}
}

// TestGoneCallersAreRefused: whoever hangs up while a refusal waits has guessed.
func TestGoneCallersAreRefused(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	f.ImportUser(t, "dear", "acct_larkspur", oldBcrypt)
	must.Do(t, f.MeasureHashes(t.Context()))
	ctx, hangUp := context.WithTimeout(t.Context(), time.Millisecond)
	defer hangUp()
	if _, err := f.AuthenticateUser(ctx, secret.Caller{}, "nobody", "wrong"); !errors.Is(err, record.ErrMismatch) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("AuthenticateUser of a caller who is gone = %v", err)
	}
}

// TestPasswordsThatBcryptCuts: what bcrypt did not read is junk, and must not become the password.
//
// Promise (Platform §10): a password of more than 72 bytes is checked as bcrypt does and its hash is
// not replaced, so that prefix and junk do not become the password; the right one works before and after
func TestPasswordsThatBcryptCuts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	// By PHP's password_hash, of that letter 72 and 100 times.
	f.ImportUser(t, "x", "acct_larkspur", "$2y$04$U/aN/x2iagom6HtEvl6J/Or7s2J3uDQb08GDtFwreVSquA7/vZ5m2")
	f.ImportUser(t, "y", "acct_larkspur", "$2y$04$1ywCKf9xPGuFpAM7TxeAOOQ6B452k4TBlk/PuMGzb8TYGlUr2iq36")
	for _, name := range []string{"x", "y"} {
		read := strings.Repeat(name, 72)
		for _, password := range []string{read + "junk", read + strings.Repeat(name, 28), read + "other junk"} {
			if _, err := f.AuthenticateUser(ctx, secret.Caller{}, name, password); err != nil {
				t.Errorf("AuthenticateUser(%s, %d bytes) = %v", name, len(password), err)
			}
		}
		if _, err := f.AuthenticateUser(ctx, secret.Caller{}, name, "junk"+read); !errors.Is(err, record.ErrMismatch) {
			t.Errorf("AuthenticateUser(%s, junk before it) = %v, want %v", name, err, record.ErrMismatch)
		}
	}
	if got := counted(t, f); got != "2: bcrypt true 2" {
		t.Errorf("counted %s, want the old hashes", got)
	}
	read := strings.Repeat("x", 72)
	must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "x", read))(t)
	must.Get(f.AuthenticateUser(ctx, secret.Caller{}, "x", read))(t)
	if _, err := f.AuthenticateUser(ctx, secret.Caller{}, "x", read+"junk"); !errors.Is(err, record.ErrMismatch) {
		t.Errorf("after 72 bytes signed in, junk behind them = %v, want %v", err, record.ErrMismatch)
	}
}
