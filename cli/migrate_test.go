package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/kv"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/secret"
)

// olderFacts are what is in the store of schema 1: testdata/older/README.md.
type olderFacts struct {
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"`
	Username     string   `json:"username"`
	Password     string   `json:"password"`
	Account      string   `json:"account"`
	Access       string   `json:"access_token"`
	Refresh      string   `json:"refresh_token"`
	SpentRefresh string   `json:"spent_refresh_token"`
	Codes        []string `json:"codes"`
	SpentCode    string   `json:"spent_code"`
	Events       []string `json:"events"`
	Clients      string   `json:"clients"`
	Users        string   `json:"users"`
}

// olderNow is when the older store was made, by its clock.
var olderNow = time.Unix(1748779200, 0).UTC()

const olderRedirectURI = "http://127.0.0.1/callback"

// olderStore unpacks the data directory that an older tollhouse made.
func olderStore(t testing.TB) (dir string, facts olderFacts) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "older", "schema1.json"))
	if err == nil {
		err = json.Unmarshal(text, &facts)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir = closedDir(t, "older")
	unpackOlder(t, dir)
	return dir, facts
}

func unpackOlder(t testing.TB, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "older", "schema1.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(unpacked); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		content, err := io.ReadAll(in)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// holdsAll asks of a data directory, with no server on it, all that was in the
// older store.
func (f olderFacts) holdsAll(t *testing.T, dir string) {
	t.Helper()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"event", "export", "--account", f.Account}, strings.Join(f.Events, "\n") + "\n"},
		{[]string{"client", "list", "--json"}, f.Clients},
		{[]string{"user", "list", "--json"}, f.Users},
	} {
		if out, stderr, code := run(t, append(c.args, "--data", dir)...); code != exitOK || out != c.want {
			t.Errorf("%v: exit %d, %d bytes, %s; want the %d bytes that the older tollhouse said", c.args, code, len(out), stderr, len(c.want))
		}
	}
}

// contentOf sums up every file below dir, by its path, its mode and what it
// holds, but for the lock, which tells who came last.
func contentOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() == lockName {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		sum := ""
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum = fmt.Sprintf("%x", sha256.Sum256(content))
		}
		files[strings.TrimPrefix(path, dir)] = fmt.Sprintf("%v %s", info.Mode(), sum)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// unlike are the paths that differ.
func unlike(a, b map[string]string) (paths []string) {
	for path, is := range a {
		if b[path] != is {
			paths = append(paths, path)
		}
	}
	for path := range b {
		if _, in := a[path]; !in {
			paths = append(paths, path)
		}
	}
	return paths
}

// olderBackups are the backups that migrations have left in a directory.
func olderBackups(t testing.TB, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "schema-*.backup"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// begunFiles are what was begun and has no name yet.
func begunFiles(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), newSuffix) {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	t.Run("reliability_R15_serve_migrates_at_its_start_after_a_backup", migrateAtStart)
	t.Run("reliability_R15_a_command_migrates_what_it_opens", migrateForCommand)
	t.Run("reliability_R15_tokens_live_on_and_codes_are_found_to_be_revoked", migratedTokens)
	t.Run("reliability_R15_what_another_end_left_behind_hinders_nobody", migrateOverRemains)
	t.Run("reliability_R15_a_backup_of_an_older_schema_is_restored", migrateByRestore)
	t.Run("reliability_R15_a_damaged_store_is_refused_and_stays", migrateDamaged)
	t.Run("appliance_exit_78_a_newer_schema_is_refused_with_both_versions", refuseNewerStore)
	t.Run("appliance_exit_75_a_migration_waits_for_no_restore", migrateBesideRestore)
}

func migrateAtStart(t *testing.T) {
	t.Parallel()
	dir, facts := olderStore(t)
	before := contentOf(t, filepath.Join(dir, generationOne))
	s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--public-url", "http://127.0.0.1")
	answer, err := http.PostForm("http://"+s.ready["listen"].([]any)[0].(string)+"/oauth/v2/token", url.Values{
		"grant_type": {"password"}, "client_id": {facts.ClientID}, "client_secret": {facts.ClientSecret}, "username": {facts.Username}, "password": {facts.Password},
	})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"access_token":"tollat_`)) {
		t.Errorf("the user of before signs in: %d, %s", answer.StatusCode, body)
	}
	facts.holdsAll(t, dir)
	if code := s.end(); code != exitOK {
		t.Fatalf("the server ended with %d: %s", code, s.stderr)
	}
	made := olderBackups(t, dir)
	if !strings.Contains(s.stderr.String(), `"msg":"store migrated","from_schema":1,"to_schema":3`) || len(made) != 1 {
		t.Fatalf("backups %v, log:\n%s\nwant one backup, and a line that tells of the migration", made, s.stderr)
	}
	if info, err := os.Stat(made[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, %v; want 0600", info.Mode(), err)
	}
	out, stderr, code := run(t, "backup", "verify", made[0], "--json")
	var shown struct{ backup.Header }
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != exitOK || shown.Schema != 1 || shown.Key == "" {
		t.Errorf("backup verify: exit %d, %+v, %s; want a whole one of schema 1", code, shown, stderr)
	}
	if current, err := currentGeneration(dir); err != nil || current != "db-0002" {
		t.Errorf("CURRENT = %s, %v, want db-0002", current, err)
	}
	// The generation of before is there as it was, but for what opening it leaves.
	for path, is := range before {
		if strings.HasSuffix(path, ".sst") && contentOf(t, filepath.Join(dir, generationOne))[path] != is {
			t.Errorf("%s of the generation of before has changed", path)
		}
	}
	again := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
	again.end()
	if strings.Contains(again.stderr.String(), "migrat") || len(olderBackups(t, dir)) != 1 || len(begunFiles(t, dir)) > 0 {
		t.Errorf("the next start migrates again: backups %v, begun %v, log:\n%s", olderBackups(t, dir), begunFiles(t, dir), again.stderr)
	}
}

func migrateForCommand(t *testing.T) {
	t.Parallel()
	dir, facts := olderStore(t)
	out, stderr, code := run(t, "account", "list", "--data", dir, "--json")
	if code != exitOK || !strings.Contains(out, facts.Account) || !strings.Contains(stderr, "tollhouse: the store was migrated from schema 1 to 3, into "+filepath.Join(dir, "db-0002")+"; what it was is kept as db-0001 and in ") {
		t.Errorf("account list: exit %d, %s, %s", code, out, stderr)
	}
	facts.holdsAll(t, dir)
	// With --quiet nothing is said, and back at the older generation it is done again.
	if err := os.WriteFile(filepath.Join(dir, currentName), []byte(generationOne+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := run(t, "account", "list", "--data", dir, "--quiet"); code != exitOK || stderr != "" {
		t.Errorf("account list --quiet: exit %d, %s", code, stderr)
	}
	if current, err := currentGeneration(dir); err != nil || current != "db-0003" {
		t.Errorf("CURRENT = %s, %v, want db-0003", current, err)
	}
}

// openOlder opens the generation in use as a server would that has the clock of
// the older one.
func openOlder(t *testing.T, dir string, at time.Time) *store.Store {
	t.Helper()
	current, err := currentGeneration(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := readKey(filepath.Join(dir, keyName), false, quiet)
	if err != nil {
		t.Fatal(err)
	}
	k, err := openKeep(context.Background(), keepOptions{dir: filepath.Join(dir, current), key: key, log: quiet, now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.close(); err != nil {
			t.Error(err)
		}
	})
	return k.store
}

// migratedTokens is what the migration is for: a code that was allowed before it
// is found by its user and client after it.
func migratedTokens(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir, facts := olderStore(t)
	if n := countKind(t, filepath.Join(dir, generationOne), 'K'); n != 0 {
		t.Fatalf("%d codes are listed in the older store, so it proves nothing", n)
	}
	if _, stderr, code := run(t, "account", "list", "--data", dir); code != exitOK {
		t.Fatal(stderr)
	}
	if n := countKind(t, filepath.Join(dir, "db-0002"), 'K'); n != len(facts.Codes) {
		t.Errorf("%d codes are listed after the migration, want the %d that were not redeemed", n, len(facts.Codes))
	}
	s := openOlder(t, dir, olderNow.Add(time.Second))
	token := func(kind secret.Kind, text string) secret.Token {
		t.Helper()
		parsed, ok := secret.Parse(kind, text)
		if !ok {
			t.Fatalf("%q is no token", text)
		}
		return parsed
	}
	client, err := s.AuthenticateClient(ctx, facts.ClientID, facts.ClientSecret)
	if err != nil {
		t.Fatalf("AuthenticateClient() = %v", err)
	}
	user, err := s.AuthenticateUser(ctx, facts.Username, facts.Password)
	if err != nil {
		t.Fatalf("AuthenticateUser() = %v", err)
	}
	if p, err := s.FindPrincipal(ctx, token(secret.AccessToken, facts.Access)); err != nil || p.Account != facts.Account || p.Username != facts.Username {
		t.Errorf("the access token of before: %+v, %v", p, err)
	}
	redeem := func(code string) error {
		_, err := s.RedeemCode(ctx, store.Redemption{Client: client, Code: token(secret.Code, code), RedirectURI: olderRedirectURI})
		return err
	}
	if err := redeem(facts.Codes[0]); err != nil {
		t.Errorf("a code of before: RedeemCode() = %v, want a pair", err)
	}
	if _, err := s.RotateRefresh(ctx, store.Refresh{Client: client, Token: token(secret.RefreshToken, facts.Refresh)}); err != nil {
		t.Errorf("the refresh token of before: RotateRefresh() = %v, want a pair", err)
	}
	if err := s.RevokeGranted(ctx, store.By{}, user, client.ID); err != nil {
		t.Fatalf("RevokeGranted() = %v", err)
	}
	for _, code := range facts.Codes[1:] {
		if err := redeem(code); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a code of before, after the user's revocation: RedeemCode() = %v, want ErrNotFound", err)
		}
	}
	if _, err := s.FindPrincipal(ctx, token(secret.AccessToken, facts.Access)); err == nil {
		t.Error("the access token outlives the revocation")
	}
	if _, err := s.CheckAll(ctx); err != nil {
		t.Errorf("CheckAll() = %v, want nil", err)
	}
}

// countKind counts the records of a kind in a store that nobody has open.
func countKind(t *testing.T, path string, tag byte) (n int) {
	t.Helper()
	db, err := badgerkv.Open(badgerkv.Options{Dir: path})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(context.Background(), func(r kv.Reader) error {
		for range r.Scan(kv.Range{Lo: []byte{tag}, Hi: []byte{tag + 1}, KeysOnly: true}) {
			n++
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return n
}

// migrateOverRemains makes by hand what an end at each step leaves behind.
func migrateOverRemains(t *testing.T) {
	t.Parallel()
	whole, facts := olderStore(t)
	if _, stderr, code := run(t, "account", "list", "--data", whole); code != exitOK {
		t.Fatal(stderr)
	}
	made := olderBackups(t, whole)[0]
	file, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	unnamed := func(dir string) string { return filepath.Join(dir, "."+filepath.Base(made)+".123456"+newSuffix) }
	write := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newGeneration := func(path string) {
		t.Helper()
		if err := os.CopyFS(path, os.DirFS(filepath.Join(whole, "db-0002"))); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		left func(dir string)
		want string // the generation in use in the end
	}{
		{"half_a_backup", func(dir string) { write(unnamed(dir), file[:len(file)/2]) }, "db-0002"},
		{"a_backup_without_its_name", func(dir string) { write(unnamed(dir), file) }, "db-0002"},
		{"a_generation_that_is_empty", func(dir string) {
			write(unnamed(dir), file)
			if err := os.Mkdir(filepath.Join(dir, "db-0002"+newSuffix), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "db-0002"},
		{"a_generation_without_its_name", func(dir string) { write(unnamed(dir), file); newGeneration(filepath.Join(dir, "db-0002"+newSuffix)) }, "db-0002"},
		{"a_generation_and_a_backup_without_its_name", func(dir string) { write(unnamed(dir), file); newGeneration(filepath.Join(dir, "db-0002")) }, "db-0003"},
		{"everything_but_the_pointer", func(dir string) {
			write(filepath.Join(dir, filepath.Base(made)), file)
			newGeneration(filepath.Join(dir, "db-0002"))
			write(filepath.Join(dir, currentName+newSuffix), []byte("db-0"))
		}, "db-0003"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := olderStore(t)
			c.left(dir)
			facts.holdsAll(t, dir)
			current, err := currentGeneration(dir)
			if err != nil || current != c.want || len(begunFiles(t, dir)) > 0 {
				t.Errorf("CURRENT = %s, %v, begun %v; want %s and nothing begun", current, err, begunFiles(t, dir), c.want)
			}
		})
	}
}

// TestMigrateKilled ends migrations at 20 moments: at each step, as soon as it is
// seen and a little later. Each leaves the one store or the other, and the next
// start goes on.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	isThere := func(pattern string) func(dir string) bool {
		return func(dir string) bool {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			return err == nil && len(found) > 0
		}
	}
	steps := []struct {
		name string
		seen func(dir string) bool
	}{
		{"locked", isThere(lockName)},
		{"backup_begun", isThere(".schema-1-*" + newSuffix)},
		{"backup_written", func(dir string) bool {
			found, err := filepath.Glob(filepath.Join(dir, ".schema-1-*"+newSuffix))
			if err != nil || len(found) == 0 {
				return false
			}
			info, err := os.Stat(found[0])
			return err == nil && info.Size() > 0
		}},
		{"generation_begun", isThere("db-0002" + newSuffix)},
		{"engine_begun", isThere("db-0002" + newSuffix + "/*.mem")},
		{"engine_open", isThere("db-0002" + newSuffix + "/STAMP")},
		{"generation_named", isThere("db-0002")},
		{"backup_named", isThere("schema-1-*.backup")},
		{"pointer_changed", func(dir string) bool {
			current, err := currentGeneration(dir)
			return err == nil && current == "db-0002"
		}},
		{"serving", isThere(socketName)},
	}
	old := 0
	for _, step := range steps {
		for later, wait := range map[string]time.Duration{"at_once": 0, "a_little_later": 3 * time.Millisecond} {
			dir, facts := olderStore(t)
			endAt(t, dir, step.seen, wait)
			what := "reliability_R15_killed_at_" + step.name + "_" + later
			switch current, err := currentGeneration(dir); {
			case err == nil && current == generationOne:
				old++
			case err != nil || current != "db-0002":
				t.Errorf("%s: CURRENT = %q, %v", what, current, err)
			}
			out, stderr, code := run(t, "event", "export", "--account", facts.Account, "--data", dir)
			if code != exitOK || out != strings.Join(facts.Events, "\n")+"\n" {
				t.Errorf("%s: the next start: exit %d, %d bytes, %s", what, code, len(out), stderr)
			}
			sameGenerations(t, what, dir, "db-0002", generationOne, "db-0002")
			if left := begunFiles(t, dir); len(left) > 0 || countKind(t, filepath.Join(dir, mustCurrent(t, dir)), 'K') != len(facts.Codes) {
				t.Errorf("%s: the next start left %v, or has not migrated", what, left)
			}
		}
	}
	if old == 0 || old == 2*len(steps) {
		t.Errorf("%d of %d ends left the older store in use; want some, and not all, or this test proves little", old, 2*len(steps))
	}
	t.Logf("%d of %d ends left the older store in use", old, 2*len(steps))
}

// endAt starts a server on dir and kills it a while after a step is seen.
func endAt(t *testing.T, dir string, seen func(string) bool, wait time.Duration) {
	t.Helper()
	cmd := exec.Command("tollhouse", "serve", "--data", dir, "--listen", "127.0.0.1:0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for began := time.Now(); !seen(dir); time.Sleep(50 * time.Microsecond) {
		if time.Since(began) > startMax {
			t.Errorf("the step was not seen in %v", startMax)
			return
		}
	}
	time.Sleep(wait)
}

func mustCurrent(t *testing.T, dir string) string {
	t.Helper()
	current, err := currentGeneration(dir)
	if err != nil {
		t.Fatal(err)
	}
	return current
}

func migrateByRestore(t *testing.T) {
	t.Parallel()
	dir, facts := olderStore(t)
	if _, stderr, code := run(t, "account", "list", "--data", dir); code != exitOK {
		t.Fatal(stderr)
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if _, stderr, code := run(t, "restore", olderBackups(t, dir)[0], "--data", elsewhere); code != exitOK {
		t.Fatalf("restore: exit %d, %s", code, stderr)
	}
	facts.holdsAll(t, elsewhere)
	if n := countKind(t, filepath.Join(elsewhere, generationOne), 'K'); n != len(facts.Codes) || len(olderBackups(t, elsewhere)) > 0 {
		t.Errorf("%d codes are listed, want %d; backups %v, want none: a restore needs no migration after it", n, len(facts.Codes), olderBackups(t, elsewhere))
	}
}

func migrateDamaged(t *testing.T) {
	t.Parallel()
	dir, facts := olderStore(t)
	path := filepath.Join(dir, generationOne)
	db, err := badgerkv.Open(badgerkv.Options{Dir: path})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(context.Background(), func(tx kv.Txn) error { return tx.Set([]byte("caaa\x00"), []byte{9}, time.Time{}) })
	// What a migration that was killed has left goes before this one fails.
	err = errors.Join(err, db.Close(), os.Mkdir(filepath.Join(dir, "db-0002"), 0o700), os.WriteFile(filepath.Join(dir, "db-0002", unusedName), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, stderr, code := run(t, "serve", "--data", dir, "--listen", "127.0.0.1:0")
		if code != exitIO || !strings.Contains(stderr, "has schema 1 and could not be migrated to 3: ") || !strings.Contains(stderr, "hint: nothing was changed: go on with the tollhouse of before") {
			t.Errorf("serve: exit %d, %s; want 74 that says what and what now", code, stderr)
		}
	}
	if mustCurrent(t, dir) != generationOne || len(olderBackups(t, dir))+len(begunFiles(t, dir)) > 0 || countKind(t, path, 'k') < len(facts.Codes) {
		t.Errorf("CURRENT %s, backups %v, begun %v; want the store of before and nothing beside it", mustCurrent(t, dir), olderBackups(t, dir), begunFiles(t, dir))
	}
	sameGenerations(t, "after a migration that failed", dir, generationOne, generationOne)
}

func refuseNewerStore(t *testing.T) {
	t.Parallel()
	dir, _ := liveDirectory(t)
	schema := func(n byte) {
		t.Helper()
		db, err := badgerkv.Open(badgerkv.Options{Dir: filepath.Join(dir, generationOne)})
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(context.Background(), func(tx kv.Txn) error {
			meta, err := tx.Get([]byte("mstore\x00"))
			if err != nil {
				return err
			}
			meta = bytes.Clone(meta)
			meta[1] = n
			return tx.Set([]byte("mstore\x00"), meta, time.Time{})
		})
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	schema(9)
	for _, args := range [][]string{{"account", "list"}, {"account", "create", "acct_b"}, {"backup", filepath.Join(t.TempDir(), "file")}, {"serve", "--listen", "127.0.0.1:0"}} {
		_, stderr, code := run(t, append(args, "--data", dir)...)
		if code != exitConfig || !strings.Contains(stderr, "error: the store has schema 9 and this tollhouse knows up to 3\n") || !strings.Contains(stderr, "hint: use the tollhouse that wrote it, or a later one\n") {
			t.Fatalf("%v: exit %d, %s; want 78 that names both", args, code, stderr)
		}
	}
	schema(2)
	stillThere(t, dir)
}

func migrateBesideRestore(t *testing.T) {
	t.Parallel()
	dir, facts := olderStore(t)
	alone := restoration{dir: dir}
	if err := alone.lockOut(); err != nil {
		t.Fatal(err)
	}
	before := contentOf(t, filepath.Join(dir))
	if _, stderr, code := run(t, "account", "list", "--data", dir); code != exitBusy || !strings.Contains(stderr, "another restore into "+dir+" is at work") {
		t.Errorf("account list during a restore: exit %d, %s; want 75", code, stderr)
	}
	for _, path := range unlike(before, contentOf(t, dir)) {
		if !strings.HasPrefix(path, "/"+generationOne) {
			t.Errorf("%s has changed", path)
		}
	}
	if err := alone.alone.Close(); err != nil {
		t.Fatal(err)
	}
	facts.holdsAll(t, dir)
}
