//go:build older

package proof

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

var olderStore = flag.String("older", "", "write the store of an older tollhouse, TOLLHOUSE_BINARY, to `PATH`.tar.gz, and what is in it to PATH.json")

// olderFacts are what is in an older store that must still be there when it was
// migrated: cli/testdata/older/README.md.
type olderFacts struct {
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"`
	Username     string   `json:"username"`
	Password     string   `json:"password"`
	Account      string   `json:"account"`
	Access       string   `json:"access_token"`
	Refresh      string   `json:"refresh_token"`
	SpentRefresh string   `json:"spent_refresh_token"`
	Codes        []string `json:"codes"` // allowed and not redeemed
	SpentCode    string   `json:"spent_code"`
	Events       []string `json:"events"` // as they were exported
	Clients      string   `json:"clients"`
	Users        string   `json:"users"`
}

// TestMakeOlderStore has an older tollhouse make a store with something of every
// kind, for the tests that migrate it: cli/testdata/older/make.sh.
func TestMakeOlderStore(t *testing.T) {
	if *olderStore == "" {
		t.Fatal("-older says where to: use cli/testdata/older/make.sh, which builds the older tollhouse too")
	}
	dir := filepath.Join(t.TempDir(), "data")
	w := &walk{s: startServe(t, dir, "--public-url", "http://127.0.0.1"), visitor: newVisitor(t)}
	w.creds = w.s.createClient("Larkspur Bookkeeping", callbackURI)
	w.s.createUser(odile, odileAccount, odilePassword)
	w.s.run("event", "import", importedLines(t), "--account", odileAccount, "--quiet")
	w.byPassword(t, oauth2.AuthStyleInHeader)
	w.byCode(t, oauth2.AuthStyleInHeader)
	w.byRefresh(t, oauth2.AuthStyleInHeader)
	w.changeCustomer(t)
	facts := olderFacts{
		ClientID: w.creds.ID, ClientSecret: w.creds.Secret, Username: odile, Password: odilePassword, Account: odileAccount,
		Access: w.refreshed.AccessToken, Refresh: w.refreshed.RefreshToken, SpentRefresh: w.password.RefreshToken, SpentCode: w.usedCode,
	}
	for range 3 {
		address := w.config(oauth2.AuthStyleInParams).AuthCodeURL("kept")
		facts.Codes = append(facts.Codes, w.visitor.allow(w.visitor.open(address)).Query().Get("code"))
	}
	for line := range strings.Lines(string(w.s.run("event", "export", "--account", odileAccount))) {
		facts.Events = append(facts.Events, strings.TrimSpace(line))
	}
	facts.Clients, facts.Users = string(w.s.run("client", "list", "--json")), string(w.s.run("user", "list", "--json"))
	w.s.stop()
	if err := packDirectory(*olderStore+".tar.gz", dir); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(facts, "", "\t")
	if err == nil {
		err = os.WriteFile(*olderStore+".json", append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func importedLines(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "events.ndjson")
	lines := command(t, "", "event", "generate", "--seed", "7", "--events", "60", "--until", "2025-05-31T00:00:00Z", "--data", filepath.Join(t.TempDir(), "none"))
	if err := os.WriteFile(file, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// packDirectory writes the files of dir to a tar.gz, without what belongs to the
// process and the machine that made them: the lock, the socket, and the stamp with
// the time of that machine's clock.
func packDirectory(file, dir string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	packed := gzip.NewWriter(f)
	out := tar.NewWriter(packed)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || entry.IsDir() || name == "LOCK" || name == "STAMP" || name == "admin.sock" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{Name: filepath.ToSlash(inside), Mode: 0o600, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = io.Writer(out).Write(content)
		return err
	})
	return errors.Join(err, out.Close(), packed.Close())
}
