package handlers_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Hashes of oldPassword; testdata/foreign in store/secret says who made them.
const (
	oldPassword = "correct horse battery staple é"
	oldBcrypt   = "$2a$10$O8FiKqUzy3mQXGlBx4hVhe3DDL9h3zQ4Oe0hM.pyGcy60EAV0BfP6"
	oldBcrypt12 = "$2a$12$ohnXqIjBfasU6Lhld0pwEOfE2M/rUqVHgRkiF4WVhy4vNOwzZjQ3q"
	oldPBKDF2   = "pbkdf2_sha256$120000$seasalt$L2KlG++dpfZgaMVmqjvM+WS1m6OvSh1FRQ6k3DiV2vM="
	oldCheap    = "$2a$04$Bqriii12e9KfinuYScWI/uSRtXXzRKYM63MgVz8Uo1mBeGrMsKstm"
	oldDigest   = "{SSHA}JFZFs0oHzxbMwkSJmYVeI8MnTDy/276a"
)

// oldHouse has users of every class, with names of four letters.
func oldHouse(t *testing.T, dearest string) *neighbourhood {
	t.Helper()
	n := populate(t, slowHouse(t)) // mara, dora, who is disabled, and cleo, who waits for a code
	n.ImportUser(t, "dear", n.account, dearest)
	n.ImportUser(t, "pbkd", n.account, oldPBKDF2)
	n.ImportUser(t, "wrap", n.account, oldCheap)
	n.ImportUser(t, "ssha", n.account, oldDigest)
	n.ImportUser(t, "away", n.account, oldBcrypt)
	must.Get(n.DisableUser(t.Context(), "away"))(t)
	n.ImportUser(t, "used", n.account, oldPBKDF2)
	must.Get(n.AuthenticateUser(t.Context(), secret.Caller{}, "used", oldPassword))(t)
	must.Do(t, n.MeasureHashes(t.Context()))
	return n
}

const (
	oldSamples, oldSamplesLong = 5, 200 // of each class
	// The figure must be below 5 %. The short form leaves room for a busy machine.
	oldPercent, oldPercentLong = 60, 5
)

// TestTimesOfImportedUsers times refused sign-ins of every class over a connection, in turns. By the
// figures the medians differ by less than 5 %.
//
// Promise (Platform §10): wrong passwords of unknown, native, imported, wrapped and disabled users,
// those without a password and empty ones take one time and have one answer
func TestTimesOfImportedUsers(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	n := oldHouse(t, oldBcrypt)
	grant := func(name, password string) func(testing.TB) *http.Request {
		return n.posts(tokenPath, with(n.passwordForm(), "username", name, "password", password))
	}
	samples, most := oldSamples, float64(oldPercent)
	if must.Long() {
		samples, most = oldSamplesLong, oldPercentLong
	}
	for door, send := range map[string]func(name, password string) func(testing.TB) *http.Request{"login": n.login, "grant": grant} {
		asks := []ask{{about: "unknown", typed: "nils", send: send("nils", "wrong")}}
		for _, name := range []string{"mara", "dora", "cleo", "dear", "pbkd", "wrap", "ssha", "away", "used"} {
			asks = append(asks, ask{about: name, typed: name, send: send(name, "wrong")})
		}
		asks = append(asks, ask{about: "away, right", typed: "away", send: send("away", oldPassword)})
		if door == "login" { // without one, the grant is malformed for every name
			asks = append(asks, ask{about: "dear, empty", typed: "dear", send: send("dear", "")}, ask{about: "unknown, empty", typed: "nils", send: send("nils", "")})
		}
		address := n.listen(t)
		c := &timedConn{address: address}
		taken, answers := make([][]time.Duration, len(asks)), make([]string, len(asks))
		for range samples {
			for i, a := range asks {
				n.Clock.Advance(throttleForgets)
				took, _ := c.send(t, a.send(t))
				taken[i] = append(taken[i], took)
				if answers[i] == "" {
					answers[i] = plain(overTheWire(t, http.DefaultClient, dialled(a.send(t), address)), a.typed)
				}
			}
		}
		c.close()
		first, worst := median(taken[0]), 0.0
		for i, a := range asks {
			percent := 100 * math.Abs(float64(median(taken[i]))/float64(first)-1)
			if worst = max(worst, percent); percent > most {
				t.Errorf("%s: about %s: %v, about somebody unknown %v: %.1f %%, want %.0f %% at most", door, a.about, median(taken[i]), first, percent, most)
			}
			if answers[i] != answers[0] {
				t.Errorf("%s: the answer about %s is\n%s\nnot\n%s", door, a.about, answers[i], answers[0])
			}
		}
		must.Figure(t, door+"_imported_median_difference_percent", worst)
	}
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}

// TestRefusalsAtEveryDoor: the sign-in form, the password grant, the form for a new password and the
// confirmation at the desk.
//
// Promise (Platform §10): while imported hashes are in the store, a refusal at every door takes the
// time of the dearest of them
func TestRefusalsAtEveryDoor(t *testing.T) {
	must.SkipInShort(t)
	h, desk := deskHouse(t)
	mara := h.signedIn(t, h.user)
	_, fields := deskForm(t, desk.get(t, "/desk/new-user"), "create-user")
	h.ImportUser(t, "harriet", h.account, oldBcrypt12)
	must.Do(t, h.MeasureHashes(t.Context()))
	began := time.Now()
	must.Get(secret.NewQuickHasher().Verify(t.Context(), secret.Caller{}, oldBcrypt12, "wrong"))(t)
	dear := time.Since(began)
	h.Clock.Advance(15 * time.Minute) // the desk asks for the password again
	form := mara.passwordForm(t, "wrong", "another "+storetest.Password)
	b := h.browser(t)
	login := b.get(t, "/login")
	for door, send := range map[string]func() answer{
		"login":   func() answer { return b.submit(t, login, "username", "nils", "password", "wrong") },
		"grant":   func() answer { return h.token(t, with(h.passwordForm(), "username", "nils")) },
		"account": func() answer { return mara.post(t, accountPassword, form) },
		"desk": func() answer {
			return desk.post(t, "/desk/users/"+h.user.Subject()+"/promote", with(fields, "password", "wrong"))
		},
	} {
		began := time.Now()
		a := send()
		if took := time.Since(began); took < dear/20 { // it was measured on a busy machine
			t.Errorf("%s refused after %v (%d), want the %v of the dearest hash", door, took, a.StatusCode, dear)
		}
	}
}

// Promise (Platform §10): the text of a stored hash, of a kept or a wrapped one, is never the password
func TestHashesAreNoPasswords(t *testing.T) {
	must.SkipInShort(t)
	h := parallelHouse(t)
	h.ImportUser(t, "harriet", h.account, oldBcrypt)
	h.ImportUser(t, "ida", h.account, oldDigest)
	for name, hashes := range map[string][]string{"harriet": {oldBcrypt, oldBcrypt[7:]}, "ida": {oldDigest, oldDigest[6:], "test123"}} {
		for _, hash := range hashes {
			a := h.token(t, with(h.passwordForm(), "username", name, "password", hash))
			if isRight := hash == "test123"; (a.StatusCode == http.StatusOK) != isRight {
				t.Errorf("signing in as %s with %q = %d", name, hash, a.StatusCode)
			}
		}
	}
}

// Promise (Platform §11): failures at an imported secret charge the source and the client; then it is
// refused without a check, for the right secret too; the hash itself is never the secret
func TestGuessesAtAnImportedSecret(t *testing.T) {
	h := parallelHouse(t)
	h.ImportRecords(t, fmt.Sprintf(`{"client":{"client_id":"books","client_secret_hash":%q,"grants":["password"]}}`, oldCheap),
		`{"client":{"client_id":"till","client_secret_hash":{"scheme":"sha256","hash":"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"},"grants":["password"]}}`)
	ask := func(client, secret, source string) answer {
		return h.token(t, with(h.passwordForm(), "client_id", client, "client_secret", secret), from(source))
	}
	if a := ask("till", "password", "192.0.2.1"); a.StatusCode != http.StatusOK {
		t.Errorf("a secret imported as SHA-256 = %d %s", a.StatusCode, a.body)
	}
	for i, wrong := range []string{"", "wrong", oldCheap} {
		if a := ask("books", wrong, address(i)); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("the secret %q = %d, want 401", wrong, a.StatusCode)
		}
	}
	for range 30 {
		ask("books", "wrong", "192.0.2.7")
	}
	if a := ask("books", oldPassword, "192.0.2.7"); a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a source after 30 failures = %d, want 429", a.StatusCode)
	}
	failed := 0
	for i := range 400 {
		if a := ask("books", "wrong", address(10+i)); a.StatusCode == http.StatusUnauthorized {
			failed++
		}
	}
	if failed < 200 || failed > 300 {
		t.Errorf("%d guesses from as many sources were checked, want those up to 300 a minute", failed)
	}
	if a := ask("books", oldPassword, "203.0.113.9"); a.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the client after 300 failures = %d, want 429", a.StatusCode)
	}
	if a := h.token(t, h.passwordForm(), from("203.0.113.9")); a.StatusCode != http.StatusOK {
		t.Errorf("another client meanwhile = %d, want 200", a.StatusCode)
	}
	h.Clock.Advance(time.Minute)
	for range 2 {
		if a := ask("books", oldPassword, "203.0.113.9"); a.StatusCode != http.StatusOK {
			t.Errorf("the right secret a minute later = %d %s", a.StatusCode, a.body)
		}
	}
	for range 40 { // it is ours now, and never waits
		ask("books", "wrong", "203.0.113.9")
	}
	if a := ask("books", oldPassword, "203.0.113.9"); a.StatusCode != http.StatusOK {
		t.Errorf("the right secret after its hash was replaced = %d, want 200", a.StatusCode)
	}
}
