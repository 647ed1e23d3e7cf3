package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/store"
)

// doctor looks at everything that a server rests on. What concerns the store is
// looked at by whoever has it open: the server, over the admin socket, or this very
// process, by the same code (withDoctor). What others see of it, the files and the
// public address, is looked at from here.

// finding is what one check has found.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warning or problem
	Detail string `json:"detail"`
	Next   string `json:"next,omitempty"` // what to do, unless it is ok
}

const (
	stateOK      = "ok"
	stateWarning = "warning"
	stateProblem = "problem"

	doctorPath = "/admin/doctor"

	nextDamage = "stop the server, keep a copy of the data directory, restore the last backup that is whole, and test the disk and the memory of the machine"
)

func allRight(check, format string, args ...any) finding {
	return finding{Check: check, State: stateOK, Detail: fmt.Sprintf(format, args...)}
}

func warningOf(check, next, format string, args ...any) finding {
	return finding{Check: check, State: stateWarning, Next: next, Detail: fmt.Sprintf(format, args...)}
}

func problemOf(check, next, format string, args ...any) finding {
	return finding{Check: check, State: stateProblem, Next: next, Detail: fmt.Sprintf(format, args...)}
}

// problemFrom is the finding of an error that has its own next step, if any.
func problemFrom(check, next string, err error) finding {
	f := asFault(err)
	if f.hint != "" {
		next = f.hint
	}
	return problemOf(check, next, "%s", f.err)
}

func (p *program) doctorCommand() *cobra.Command {
	var deep bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "look for what is wrong, or will be: store, disk, clock, TLS, proxy, files",
		Long: `Look at everything that a server rests on: its files and their modes, the server
key, the store, the disk, the clock, the last backup, and, when a server runs, the
address by which others reach it, the proxies before it and its certificate. A line for each: ok,
warning or problem, with the next step. --deep reads every block and every record
of the store too, which may take minutes, and may be done while it serves.

Exit 1 if there is a problem; warnings are none.`,
		Args: operands(),
	}
	c.Flags().BoolVar(&deep, "deep", false, "read every block and every record of the store too")
	nameVariables(c.Flags(), "DOCTOR_")
	c.RunE = p.doing(func(ctx context.Context, _ []string) error { return p.doctor(ctx, deep) })
	return c
}

func (p *program) doctor(ctx context.Context, deep bool) error {
	if err := p.somethingToExamine(); err != nil {
		return err
	}
	looked, problems := 0, 0
	show := func(f finding) error {
		looked++
		if f.State == stateProblem {
			problems++
		}
		return p.showFinding(f)
	}
	if err := p.examine(ctx, deep, show); err != nil {
		return err
	}
	if problems > 0 {
		return fail(exitFailed, "each has its next step above", "%d of %d checks found a problem", problems, looked)
	}
	return nil
}

// somethingToExamine refuses a slip in a path.
func (p *program) somethingToExamine() error {
	if p.adminSocket != "" && !p.dataGiven {
		return nil
	}
	dir, err := filepath.Abs(p.data)
	if err == nil && isNothing(dir) {
		err = fail(exitNotFound, "name the data directory with --data", "there is no data in %s to look at", dir)
	}
	return err
}

func (p *program) showFinding(f finding) error {
	if p.json {
		return p.printJSON(f)
	}
	_, err := fmt.Fprintf(p.stdout, "%-8s %-10s %s\n", f.State, f.Check, printable(f.Detail))
	if err == nil && f.Next != "" {
		_, err = fmt.Fprintf(p.stdout, "%-8s %-10s next: %s\n", "", "", printable(f.Next))
	}
	return err
}

// examine runs every check. Its error is one of ours, or of the output: what is
// wrong with the server is a finding.
func (p *program) examine(ctx context.Context, deep bool, show func(finding) error) error {
	if p.adminSocket == "" || p.dataGiven {
		dir, err := filepath.Abs(p.data)
		if err != nil {
			return err
		}
		for _, f := range []finding{checkFiles(dir), p.checkKey(dir)} {
			if err := show(f); err != nil {
				return err
			}
		}
	}
	var broken error
	err := p.manage(ctx, "doctor", needsData, func(a *admin) error {
		if _, alone := a.http.Transport.(*inProcess); !alone {
			if broken = show(checkPublic(ctx, a.info.URL)); broken != nil {
				return nil
			}
		}
		broken = a.examineStore(ctx, deep, show)
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case broken != nil:
		return broken
	case err != nil:
		return show(problemFrom("store", "look at the log of the last start", err))
	}
	return nil
}

// examineStore has what concerns the store looked at by who has it open.
func (a *admin) examineStore(ctx context.Context, deep bool, show func(finding) error) error {
	path := doctorPath
	if deep {
		path += "?deep=true"
	}
	answer, err := a.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for d := json.NewDecoder(answer.Body); ; {
		var f finding
		err := d.Decode(&f)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return brokenAnswer(err)
		}
		if err := show(f); err != nil {
			return err
		}
	}
}

// filesNamed is how many files a finding names.
const filesNamed = 3

// checkFiles looks at the mode and the owner of everything in the data directory.
func checkFiles(dir string) finding {
	const check = "files"
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target // a link to the data is where an operator has put it
	}
	top, err := os.Stat(dir)
	if err != nil {
		return problemFrom(check, "", notAllowedOr(exitIO, dir, err))
	}
	owner, _ := ownedByUs(top)
	var open, others, odd []string
	files := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return notAllowedOr(exitIO, path, err)
		}
		if e.Name() == "lost+found" && e.IsDir() {
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		files++
		switch uid, _ := ownedByUs(info); {
		case info.Mode()&fs.ModeSymlink != 0:
			odd = append(odd, path+" is a symbolic link")
		case uid != owner:
			others = append(others, path+" belongs to "+userNamed(uid))
		case info.Mode().Perm()&0o077 != 0:
			open = append(open, fmt.Sprintf("%s has mode %04o", path, info.Mode().Perm()))
		}
		return nil
	})
	switch {
	case err != nil:
		return problemFrom(check, "", err)
	case len(others) > 0:
		return problemOf(check, fmt.Sprintf("chown -R %d %s", owner, quoteForShell(dir)), "not all belongs to %s: %s", userNamed(owner), nameFiles(others))
	case len(open) > 0:
		return problemOf(check, "chmod -R go= "+quoteForShell(dir)+", after a look at who may have read or changed them", "open to other users: %s", nameFiles(open))
	case len(odd) > 0:
		return warningOf(check, "look where it leads, and put the file itself in its place", "%s", nameFiles(odd))
	}
	return allRight(check, "%s of %s, closed to others", count(int64(files), "file", "files"), userNamed(owner))
}

func nameFiles(found []string) string {
	text := strings.Join(found[:min(len(found), filesNamed)], ", ")
	if more := len(found) - filesNamed; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// checkKey looks at the server key, which a backup does not have.
func (p *program) checkKey(dir string) finding {
	const check = "key"
	path := p.keyFile
	if path == "" {
		path = filepath.Join(dir, keyName)
	}
	key, err := readKey(path, p.keyFile != "", p.quietLog())
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.keyFile == "":
		return problemOf(check, "put your copy of it back; without one the next start makes another, and open consent screens and refreshes in flight fail once", "there is no server key %s", path)
	case err != nil:
		return problemFrom(check, "", err)
	}
	return allRight(check, "fingerprint %s", fingerprint(key))
}

const publicTimeout = 3 * time.Second // for an answer from the public address

// checkPublic asks the server by the address by which others reach it, as far as
// that can be done from here.
func checkPublic(ctx context.Context, address string) finding {
	const check = "address"
	ctx, cancel := context.WithTimeout(ctx, publicTimeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy of the environment's
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var metadata struct {
		Issuer string `json:"issuer"`
	}
	// Health is answered under any Host; the metadata only under the right one.
	for _, path := range []string{"/healthz", "/.well-known/oauth-authorization-server"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		if err != nil {
			return problemOf(check, "correct --public-url", "%s is no address: %v", address, err)
		}
		answer, err := client.Do(req)
		if err != nil {
			return unreachable(check, address, err)
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || err != nil {
			return misled(check, address+path, answer)
		}
		_ = json.Unmarshal(text, &metadata) // what is none has no issuer
	}
	if metadata.Issuer != address {
		return problemOf(check, "look where the name and the proxy lead: curl -i "+quoteForShell(address+"/healthz"),
			"at %s another server answers: its issuer is %q", address, metadata.Issuer)
	}
	return allRight(check, "%s leads here", address)
}

// unreachable is the finding when nothing answers at the public address. That is
// no problem by itself: not every machine reaches itself by its own public name.
func unreachable(check, address string, err error) finding {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	if errors.As(err, &unknown) {
		return warningOf(check, "if its issuer is your own, see that clients trust it; else get a certificate that they trust", "%s answers, and this machine does not trust it: %v", address, err)
	}
	if errors.As(err, &wrongName) || errors.As(err, &invalid) || errors.As(err, &record) {
		return problemOf(check, "give the server or its proxy a certificate that clients trust", "%s answers, and clients will not trust it: %v", address, err)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		err = errors.New("its name is not known here")
	}
	return warningOf(check, "ask from another machine: curl -i "+quoteForShell(address+"/healthz"), "%s does not answer when asked from here: %v", address, systemReason(err))
}

// misled is the finding when the public address answers otherwise than the server
// would.
func misled(check, address string, answer *http.Response) finding {
	next := "look at the proxy's configuration and log"
	switch {
	case answer.StatusCode == http.StatusMisdirectedRequest:
		next = "have the proxy pass the Host header on (nginx: proxy_set_header Host $host)"
	case answer.StatusCode == http.StatusNotFound:
		next = "have the proxy pass the path on as it came, the sub-path of --public-url too"
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return problemOf(check, "name the address itself with --public-url, or take the redirect away", "%s redirects to %s", address, answer.Header.Get("Location"))
	}
	return problemOf(check, next, "%s answers with status %d", address, answer.StatusCode)
}

// withDoctor answers doctorPath before the admin API of an open store. r is the
// server, or nil when this is a command's own process.
func withDoctor(api http.Handler, k *keep, r *running) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != doctorPath || q.Method != http.MethodGet {
			api.ServeHTTP(w, q)
			return
		}
		c := http.NewResponseController(w)
		_ = c.SetWriteDeadline(time.Time{}) // it reads everything, and in its own time
		w.Header().Set("Content-Type", "application/x-ndjson")
		lines := json.NewEncoder(w)
		u := checkup{keep: k, server: r, tell: func(f finding) {
			if lines.Encode(f) == nil {
				_ = c.Flush()
			}
		}}
		u.run(q.Context(), q.URL.Query().Get("deep") == "true")
	})
}

// checkup looks at an open store, and at its server when there is one.
type checkup struct {
	keep   *keep
	server *running // or nil
	tell   func(finding)
}

func (u checkup) run(ctx context.Context, deep bool) {
	if u.server != nil {
		u.tell(u.proxies())
		if u.server.certificates != nil {
			u.tell(certificateFinding(u.server.certificates.status(), time.Now()))
		}
	}
	u.tell(u.store(ctx))
	u.tell(u.disk())
	u.tell(u.clock(ctx))
	u.tell(u.backup(ctx))
	if deep {
		u.deep(ctx)
	}
}

func (u checkup) store(ctx context.Context) finding {
	err := u.keep.store.Check(ctx)
	if err == nil && u.server != nil {
		if damage := u.server.damage.Load(); damage != nil {
			return problemOf("store", nextDamage, "%v", *damage)
		}
		err = u.server.ready()
	}
	if err != nil {
		return problemFrom("store", "docs/operations.md says under Monitoring what each reason asks for", err)
	}
	if u.server == nil {
		return allRight("store", "opened, and it answers")
	}
	return allRight("store", "the server is ready")
}

func (u checkup) disk() finding {
	const check = "disk"
	space, onDisk, err := u.keep.db.Space()
	switch {
	case err != nil:
		return problemFrom(check, "look at the disk and at the log of the system", err)
	case !onDisk:
		return allRight(check, "the store is in memory")
	}
	text := fmt.Sprintf("%s free, and the store takes %s", showBytes(space.Free), showBytes(space.Used))
	const next = "make room there, or keep events for less long with --retain"
	switch {
	case space.Free < space.FreeMin:
		return problemOf(check, next, "%s: under %s writes are refused", text, showBytes(space.FreeMin))
	case space.Free < diskWarning*space.FreeMin:
		return warningOf(check, next, "%s: under %s writes will be refused", text, showBytes(space.FreeMin))
	}
	return allRight(check, "%s", text)
}

// diskWarning is how many times what writing needs must be free, as in
// docs/alerts.yml.
const diskWarning = 4

// clock compares the machine's clock with the last write, and the store's with the
// last event.
func (u checkup) clock(ctx context.Context) finding {
	last, err := u.keep.db.CheckClock()
	if err == nil {
		err = u.keep.store.CheckClock(ctx)
	}
	now := u.keep.store.Now()
	switch {
	case err != nil:
		return problemFrom("clock", "set the clock right", err)
	case last.IsZero():
		return allRight("clock", "%s", now.Format(time.RFC3339))
	}
	return allRight("clock", "%s, %s after the last write", now.Format(time.RFC3339), now.Sub(last).Round(time.Second))
}

// backup looks whether the last backup is too old, as docs/alerts.yml does.
func (u checkup) backup(ctx context.Context) finding {
	const check, next = "backup", "tollhouse backup FILE, or serve with --backup-every 24h"
	if _, onDisk, err := u.keep.db.Space(); err == nil && !onDisk {
		return allRight(check, "nothing is kept that would need one")
	}
	every := 24 * time.Hour
	if u.server != nil && u.server.backups != nil {
		every = max(every, u.server.backups.every)
	}
	made, err := u.keep.store.LastBackup(ctx)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return warningOf(check, next, "none was ever made")
	case err != nil:
		return problemFrom(check, nextDamage, err)
	}
	age := u.keep.store.Now().Sub(made.Created)
	text := (&backupStatus{Created: made.Created.Unix(), File: made.File, Bytes: made.Bytes}).show()
	if age > 2*every {
		return warningOf(check, next, "the last one is %s old: %s", age.Round(time.Hour), text)
	}
	return allRight(check, "%s", text)
}

// proxies looks at what X-Forwarded-For has come in. The request of checkPublic is
// among it, so that a proxy that leads here has been heard.
func (u checkup) proxies() finding {
	const check = "proxy"
	trusted := len(u.server.config.proxies) > 0
	believed, ignored := u.server.server.Forwarding()
	switch {
	case ignored.IsValid():
		return warningOf(check, fmt.Sprintf("if %s is your proxy, serve with --trusted-proxies %s; else somebody tries to look like another", ignored, ignored),
			"%s sends X-Forwarded-For, and is not among --trusted-proxies: all who come through it count as one", ignored)
	case trusted && !believed:
		return warningOf(check, "have the proxy send it (nginx: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for)",
			"no X-Forwarded-For has come from --trusted-proxies since the start: all who come through it count as one")
	case trusted:
		return allRight(check, "its X-Forwarded-For is believed")
	}
	return allRight(check, "none is trusted, and none was seen")
}

// certificateSoon is when a certificate should have been renewed, as in
// docs/alerts.yml.
const certificateSoon = 14 * 24 * time.Hour

func certificateFinding(s certificateStatus, now time.Time) finding {
	const check, next = "tls", "docs/operations.md says under TollhouseCertificateExpiring what a newer one needs"
	text, left := s.describe(now), time.Unix(s.Expires, 0).Sub(now)
	switch {
	case s.Expires == 0, left < 0:
		return problemOf(check, next, "%s", text)
	case left < certificateSoon, s.Problem != "":
		return warningOf(check, next, "%s", text)
	}
	return allRight(check, "%s", text)
}

// deep reads every block of every table, and then every record. The second needs
// the first to have found nothing, and repeats it.
func (u checkup) deep(ctx context.Context) {
	err := u.keep.db.Check(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if u.server != nil {
			u.server.found(err)
		}
		u.tell(problemOf("blocks", nextDamage, "%v; what they hold is refused: %s", err, u.hidden()))
		return
	}
	u.tell(allRight("blocks", "every table was read, and each block is what was written"))
	records, err := u.keep.store.CheckAll(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		u.tell(problemOf("records", nextDamage, "%v", err))
	default:
		u.tell(allRight("records", "%s, each of them whole and in every list where it belongs", count(records, "record", "records")))
	}
}

// hidden names what damaged tables may hold.
func (u checkup) hidden() string {
	var names []string
	seen := map[string]bool{}
	for _, keys := range u.keep.db.DamagedKeys() {
		for _, name := range store.NameKeys(keys[0], keys[1]) {
			if !seen[name] {
				seen[name], names = true, append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}
