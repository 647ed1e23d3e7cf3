package proof

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// fullRoom is what `status` says about the disk.
type fullRoom struct {
	Store struct {
		Free    uint64 `json:"free_bytes"`
		FreeMin uint64 `json:"free_min_bytes"`
		FreeEnd uint64 `json:"free_end_bytes"`
	} `json:"store"`
}

func (f *fullDiskSite) room(t *testing.T) fullRoom {
	t.Helper()
	var r fullRoom
	out, _ := exec.Command(program(t), append([]string{"status", "--json"}, f.where...)...).Output() // it fails while the server is not ready
	must.Do(t, json.Unmarshal(out, &r))
	return r
}

// command runs a command against the data directory, with the server up or down.
func (f *fullDiskSite) command(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(program(t), append(args, f.where...)...)
	cmd.Stdin = strings.NewReader("a password of some length\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s on a full disk: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestEndingsOnAFullDisk: one token fills the disk with merges under way until changes are
// refused. Then another account still refreshes and signs in, and everything that takes the
// token away works: RFC 7009 and the operator's commands, with the server up, after it
// was killed and started again, and without a server.
//
// Promise (Credentials, memory, connections): endings do not wait for a merge, and use up no more
// space than is kept for them; a server killed then starts again, and commands end things without
// one
func TestEndingsOnAFullDisk(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	f := newFullDisk(t)
	f.s = f.serve(t, "--public-url", "http://127.0.0.1")
	l := openLedger(t, f.s)
	for _, user := range []string{"filler", "other", "third"} {
		f.s.createUser(user, "acct_"+user, l.password)
	}
	grant := func(user string) tokens {
		t.Helper()
		p, refused, err := l.grant(t.Context(), "password", "username", user, "password", l.password)
		if err != nil || p.Access == "" {
			t.Errorf("a grant to %s: %s, %v", user, refused, err)
		}
		return p
	}
	filler, other, third := grant("filler"), grant("other"), grant("third")
	f.fillByToken(t, l, filler.Access)

	p, refused, err := l.grant(t.Context(), "refresh_token", "refresh_token", other.Refresh)
	if err != nil || p.Access == "" {
		t.Errorf("a refresh of another account on a full disk: %s, %v", refused, err)
	}
	grant("other")
	f.revoke(t, l, third.Refresh)
	f.command(t, "user", "disable", "filler")
	if a, err := l.call(t.Context(), filler.Access, http.MethodGet, "/api/events", ""); err != nil || a.status != http.StatusUnauthorized {
		t.Errorf("the token of who filled the disk after user disable: %s, %v; want 401", a, err)
	}

	f.s.kill()
	f.s.finish()
	f.command(t, "user", "passwd", "third", "--password-file", "-") // without a server
	f.s = f.serve(t, "--public-url", "http://127.0.0.1")
	l.moveTo(f.s)
	f.command(t, "client", "rotate-secret", l.ID, "--revoke-tokens")
	f.command(t, "event", "purge", "--account", "acct_filler", "--yes")
	f.command(t, "user", "delete", "filler", "--yes")
	f.command(t, "webhook", "hold")

	// Another program fills the disk: every change is refused, and the server keeps running.
	f.leave(t, fullLeftMin)
	eventually(t, func() bool {
		out, err := exec.Command(program(t), append([]string{"user", "disable", "other"}, f.where...)...).CombinedOutput()
		return exitCode(err) == exitIOError && strings.Contains(string(out), "MiB are free")
	}, "the last space is not kept")
	must.Do(t, os.Remove(f.filler))
	eventually(t, func() bool {
		return exec.Command(program(t), append([]string{"user", "disable", "other"}, f.where...)...).Run() == nil
	}, "an ending with room again")
	f.s.stop()
}

// fillByToken writes until changes stay refused for a second.
func (f *fullDiskSite) fillByToken(t *testing.T, l *ledger, access string) {
	t.Helper()
	f.leave(t, f.room(t).Store.FreeMin+64<<20) // the rest by the token
	noise, random := make([]byte, 20_000), rand.New(rand.NewPCG(5, 6))
	var refusedSince time.Time
	for n := 0; refusedSince.IsZero() || time.Since(refusedSince) < time.Second; n++ {
		for i := range noise {
			noise[i] = 'a' + byte(random.UintN(26))
		}
		a, err := l.call(t.Context(), access, http.MethodPut, fmt.Sprintf("/api/resources/customer/cus_%d", n), `{"notes":"`+string(noise)+`"}`)
		switch {
		case err != nil || a.status/100 != 2 && a.status != http.StatusServiceUnavailable:
			t.Fatalf("a change: %s, %v", a, err)
		case a.status/100 == 2:
			refusedSince = time.Time{}
		case refusedSince.IsZero():
			refusedSince = time.Now()
		}
		if n > 100_000 {
			t.Fatal("the disk does not fill")
		}
	}
	var disk syscall.Statfs_t
	must.Do(t, syscall.Statfs(f.where[1], &disk))
	t.Logf("changes are refused with %d MiB free by df, %+v", disk.Bavail*uint64(disk.Bsize)>>20, f.room(t).Store)
}

// revoke is RFC 7009.
func (f *fullDiskSite) revoke(t *testing.T, l *ledger, token string) {
	t.Helper()
	form := url.Values{"token": {token}, "client_id": {l.ID}, "client_secret": {l.Secret}}
	res, err := http.PostForm(f.s.base+"/oauth/v2/revoke", form)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("RFC 7009 on a full disk: %v, %v", res, err)
		return
	}
	must.Do(t, res.Body.Close())
}
