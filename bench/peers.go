package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// peer is another way to serve the same requests. It is served by a process of its own,
// which bench starts with its own binary.
type peer struct {
	name, durability string
	serve            func(ctx context.Context, dir string) (http.Handler, error)
	run              func(ctx context.Context, dir string) (*server, error) // in place of serve: starts a server of another make
	pages            bool                                                   // serves events, otherwise only tokens
	paths            *paths                                                 // of its events, ours when nil
	tokens           bool
}

// paths are where a server has events, and how its answers are read.
type paths struct {
	page   func(before int) string // of one type, at or before a second; the newest for 0
	event  func(id string) string
	events func(answer []byte) ([]any, error) // of a page, or the one
}

var ourPaths = paths{
	page: func(before int) string {
		query := url.Values{"type": {benchType}, "limit": {strconv.Itoa(benchPage)}}
		if before > 0 {
			query.Set("createdAt[lte]", strconv.Itoa(before))
		}
		return "/api/events?" + query.Encode()
	},
	event: func(id string) string { return "/api/events/" + id },
	events: func(answer []byte) ([]any, error) {
		var page struct{ Data []any }
		if err := json.Unmarshal(answer, &page); err != nil || page.Data != nil {
			return page.Data, err
		}
		var one any
		err := json.Unmarshal(answer, &one)
		return []any{one}, err
	},
}

// peers are the ones that can run here.
var peers = map[string]peer{
	"go-oauth2":     {name: "go-oauth2 4.5.4", durability: "none, in memory", serve: serveGoOAuth2, tokens: true},
	"fosite":        {name: "fosite 0.49 behind a lock", durability: "none, in memory", serve: serveFosite, tokens: true},
	"oidc-provider": {name: "oidc-provider " + oidcProviderVersion + " on Node", durability: "none, in memory", run: runOIDCProvider, tokens: true},
	"postgres":      {name: "pgx and PostgreSQL", durability: "synced before the answer", serve: servePostgres, tokens: true, pages: true},
	"sqlite":        {name: "modernc SQLite", durability: "read", serve: serveSQLite, pages: true},
	"pocketbase":    {name: "PocketBase " + pocketBaseVersion, durability: "read", run: runPocketBase, pages: true, paths: &pocketBasePaths},
}

// The client and the user of every peer.
const (
	peerClient = "tollhouse_0000000000000000000000000"
	peerSecret = "tollcs_0000000000000000000000000000000000000000000000000"
)

// absent is why a peer cannot run here.
type absent string

func (a absent) Error() string { return string(a) }

// setUpMax bounds a download or a build that a peer needs.
const setUpMax = 8 * time.Minute

// setUp runs a command that a peer needs, in dir. A peer without it is absent.
func setUp(ctx context.Context, dir, name string, args ...string) error {
	ctx, stop := context.WithTimeout(ctx, setUpMax)
	defer stop()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with the processes that it started
	if out, err := cmd.CombinedOutput(); err != nil {
		return absent(fmt.Sprintf("%s: %v: %.300s", cmd, cmp.Or(ctx.Err(), err), strings.Join(strings.Fields(string(out)), " ")))
	}
	return nil
}

// behindPeer are the processes that a peer has started and that end with it.
var behindPeer sync.WaitGroup

// servePeer serves a peer until it is stopped. Its first line has its URL, or why it is
// absent.
func servePeer(name, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer behindPeer.Wait()
	defer stop()
	p, serve := peers[name], serveHandler
	if p.run != nil {
		serve = serveBehind
	}
	err := serve(ctx, p, dir)
	if why, ok := errors.AsType[absent](err); ok {
		return json.NewEncoder(os.Stdout).Encode(map[string]string{"absent": string(why)})
	}
	return err
}

func serveHandler(ctx context.Context, p peer, dir string) error {
	h, err := p.serve(ctx, dir)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h}
	go func() { <-ctx.Done(); _ = srv.Close() }()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"url": "http://" + listener.Addr().String()}); err != nil {
		return err
	}
	if err := srv.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// serveBehind leaves the answers to a child process.
func serveBehind(ctx context.Context, p peer, dir string) error {
	behind, err := p.run(ctx, dir)
	if err != nil {
		return err
	}
	defer behind.stop()
	if err := json.NewEncoder(os.Stdout).Encode(behind.ready); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// runPeers measures refreshes and pages of tollhouse next to the peers. All have the same
// events, and their answers are compared before they are timed.
func runPeers(s settings) error {
	dir, err := os.MkdirTemp("", "tollhouse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL may run as another user
		return err
	}
	floor, err := startFloor()
	if err != nil {
		return err
	}
	defer floor.stop()
	ours, err := startTollhouse(s, dir)
	if err != nil {
		return err
	}
	defer ours.stop()
	access, _, err := ours.passwordGrant(http.DefaultClient)
	if err != nil {
		return err
	}
	if err := ours.untilChecked(ctx); err != nil {
		return err
	}
	file := filepath.Join(dir, "events.ndjson")
	if err := ours.saveEvents(file, access); err != nil {
		return err
	}
	before := func() int { return firstSecond + s.events/eventsASecond - rand.IntN(s.events/eventsASecond/3) }
	id, size, err := checkPage(ours.text("url")+ourPaths.page(0), access)
	if err != nil {
		return err
	}
	page := &scenario{name: "floor: constant 92 KB page", server: floor, durability: "none", client: get(floor.text("url")+"/page", "", constantPageSize)}
	empty := &scenario{name: "floor: empty answer", server: floor, durability: "none", client: get(floor.text("url")+"/empty", "", 0)}
	form := &scenario{name: "floor: parsed form", server: floor, durability: "none", clients: 64, client: postForm(floor.text("url") + "/form")}
	scenarios := []*scenario{empty, page, form}
	groups := map[string][]*scenario{} // ours first
	reads := func(name string, from eventServer) {
		address := from.text("url")
		groups["page anywhere"] = append(groups["page anywhere"], &scenario{name: "page by type and range, " + name, server: from.server, durability: "read", floor: page,
			client: getEach(func() string { return address + from.page(before()) }, from.bearer, size/2)})
		groups["newest page"] = append(groups["newest page"], &scenario{name: "newest page by type, " + name, server: from.server, durability: "read", floor: page, client: get(address+from.page(0), from.bearer, size/2)})
		groups["by id"] = append(groups["by id"], &scenario{name: "event by id, drawn at random, " + name, server: from.server, durability: "read", floor: empty,
			client: getEach(func() string { return address + from.event(anyEventID(s.events)) }, from.bearer, 1)})
		groups["same event"] = append(groups["same event"], &scenario{name: "the same event each time, " + name, server: from.server, durability: "read", floor: empty, client: get(address+from.event(id), from.bearer, 1)})
	}
	rotates := func(name, durability string, from *server, client func(*http.Client) (func() error, error)) {
		groups["refresh"] = append(groups["refresh"], &scenario{name: "refresh, 64 clients, " + name, server: from, durability: durability, floor: form, clients: 64, client: client})
	}
	all := eventServer{ours.server, access, &ourPaths}
	reads("tollhouse", all)
	scenarios = append(scenarios, &scenario{name: "newest page by type, another question each time, tollhouse", server: ours.server, durability: "read", floor: page,
		client: getEach(func() string {
			return ours.text("url") + ourPaths.page(firstSecond+s.events+rand.IntN(1<<20))
		}, access, size/2)})
	rotates("tollhouse", "synced before the answer", ours.server, ours.rotate)
	for _, key := range []string{"go-oauth2", "fosite", "oidc-provider", "postgres", "sqlite", "pocketbase"} {
		p := peers[key]
		self, err := os.Executable()
		if err != nil {
			return err
		}
		served, err := start(self, "-serve-peer", key, "-peer-dir", dir)
		if err != nil {
			return err
		}
		defer served.stop()
		if why := served.text("absent"); why != "" {
			fmt.Printf("left out: %s: %s\n", p.name, why)
			continue
		}
		if p.pages {
			theirs := eventServer{served, cmp.Or(served.text("bearer"), peerSecret), cmp.Or(p.paths, &ourPaths)}
			for _, id := range []string{id, anyEventID(s.events)} {
				if err := sameEvents(all, theirs, id, 0, before(), before()); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
			}
			reads(p.name, theirs)
		}
		if p.tokens {
			rotates(p.name, p.durability, served, rotateAt(served.text("url")))
		}
		if key == "postgres" {
			onPostgres, err := startTollhouseBeside(ctx, ours.binary, dir, file)
			if err != nil {
				return err
			}
			defer onPostgres.stop()
			bearer, _, err := onPostgres.passwordGrant(http.DefaultClient)
			if err != nil {
				return err
			}
			theirs := eventServer{onPostgres.server, bearer, &ourPaths}
			if err := sameEvents(all, theirs, anyEventID(s.events), 0); err != nil {
				return err
			}
			reads(oursOnPostgres, theirs)
			rotates(oursOnPostgres, p.durability, onPostgres.server, onPostgres.rotate)
		}
	}
	order := []string{"refresh", "page anywhere", "newest page", "by id", "same event"}
	for _, group := range order {
		scenarios = append(scenarios, groups[group]...)
	}
	for round := range s.rounds {
		for _, sc := range scenarios {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted in round %d", round+1)
			}
			if err := sc.measure(s); err != nil {
				return fmt.Errorf("%s: %w", sc.name, err)
			}
		}
	}
	fmt.Printf("%d clients, %d events, %d rounds of %s each\n\n", s.clients, s.events, s.rounds, s.length)
	printTable(os.Stdout, scenarios)
	fmt.Println()
	for _, group := range order {
		all := groups[group]
		for _, other := range all[1:] {
			printRatio(all[0], other)
		}
		byHand, ours := slices.IndexFunc(all, named(peers["postgres"].name)), slices.IndexFunc(all, named(oursOnPostgres))
		if byHand >= 0 && ours >= 0 {
			printRatio(all[ours], all[byHand])
		}
	}
	return nil
}

// oursOnPostgres is tollhouse on the database server of the peer that is written by hand.
const oursOnPostgres = "tollhouse on PostgreSQL"

func startTollhouseBeside(ctx context.Context, binary, dir, events string) (*instance, error) {
	db, err := pgx.Connect(ctx, "host="+filepath.Join(dir, "pg")+" user=postgres dbname=postgres")
	if err != nil {
		return nil, err
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, "create database tollhouse"); err != nil {
		return nil, err
	}
	return startTollhouseOn(binary, "postgres://postgres@/tollhouse?host="+url.QueryEscape(filepath.Join(dir, "pg")), events, dir)
}

func named(server string) func(*scenario) bool {
	return func(sc *scenario) bool { return strings.HasSuffix(sc.name, ", "+server) }
}

func printRatio(a, b *scenario) {
	ratios := ratios(a, b)
	fmt.Printf("%s: %.2f × the requests/s of %s (%.2f–%.2f)\n", a.name, median(ratios, same), b.name[strings.LastIndex(b.name, ", ")+2:], slices.Min(ratios), slices.Max(ratios))
}

// saveEvents writes all events as the API has them, the oldest first.
func (t *instance) saveEvents(path, access string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	query := url.Values{"order": {"asc"}, "limit": {"1000"}}
	for {
		body, err := ask(http.DefaultClient, access, "GET", t.text("url")+"/api/events?"+query.Encode(), "")
		if err != nil {
			return err
		}
		var page struct {
			Data       []json.RawMessage
			HasMore    bool
			NextCursor string
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return err
		}
		for _, event := range page.Data {
			if _, err := file.Write(append(event, '\n')); err != nil {
				return err
			}
		}
		if !page.HasMore {
			return file.Close()
		}
		query.Set("after", page.NextCursor)
	}
}

// eventServer is a server that is asked for events.
type eventServer struct {
	*server
	bearer string
	*paths
}

// asked returns the events of an answer.
func (e eventServer) asked(path string) ([]any, error) {
	answer, err := ask(http.DefaultClient, e.bearer, "GET", e.text("url")+path, "")
	if err != nil {
		return nil, err
	}
	return e.events(answer)
}

// sameEvents reports pages before some seconds, or an event, that differ.
func sameEvents(ours, theirs eventServer, id string, before ...int) error {
	same := func(ourPath, theirPath string) error {
		a, err := ours.asked(ourPath)
		if err != nil {
			return err
		}
		b, err := theirs.asked(theirPath)
		if err == nil && !reflect.DeepEqual(a, b) {
			err = fmt.Errorf("%s has other events: %.200v, want %.200v", theirPath, b, a)
		}
		return err
	}
	for _, second := range before {
		if err := same(ours.page(second), theirs.page(second)); err != nil {
			return err
		}
	}
	return same(ours.event(id), theirs.event(id))
}

// rotateAt is a client that refreshes a token of its own at a peer, over and over.
func rotateAt(address string) func(*http.Client) (func() error, error) {
	return func(hc *http.Client) (func() error, error) {
		ask := func(form url.Values) (refresh string, err error) {
			form.Set("client_id", peerClient)
			form.Set("client_secret", peerSecret)
			r, err := hc.PostForm(address+"/oauth/v2/token", form)
			if err != nil {
				return "", err
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return "", err
			}
			var answer struct {
				RefreshToken string `json:"refresh_token"`
			}
			if r.StatusCode != http.StatusOK || json.Unmarshal(body, &answer) != nil || answer.RefreshToken == "" {
				return "", fmt.Errorf("%s: %s: %.200s", address, r.Status, body)
			}
			return answer.RefreshToken, nil
		}
		refresh, err := ask(url.Values{"grant_type": {"password"}, "username": {username}, "password": {password}})
		if err != nil {
			return nil, err
		}
		return func() (err error) {
			old := refresh
			refresh, err = ask(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old}})
			if err == nil && refresh == old {
				err = errors.New("the refresh token is not rotated")
			}
			return err
		}, nil
	}
}
