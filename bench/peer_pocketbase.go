package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	pocketBaseVersion = "0.36.8"
	pocketBaseAdmin   = username + "@bench.example"
)

// builtPocketBase builds PocketBase in a module of its own below dir.
func builtPocketBase(ctx context.Context, dir string) (string, error) {
	own, program := filepath.Join(dir, "built-pocketbase"), "github.com/pocketbase/pocketbase/examples/base"
	if err := os.Mkdir(own, 0o755); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"mod", "init", "peer"},
		{"get", program + "@v" + pocketBaseVersion},
		{"build", "-trimpath", "-ldflags=-s -w", "-o", "pocketbase", program},
	} {
		if err := setUp(ctx, own, "go", args...); err != nil {
			return "", err
		}
	}
	return filepath.Join(own, "pocketbase"), nil
}

// runPocketBase starts PocketBase with the events in a collection that only its superuser
// may read, so that no rule is evaluated. It keeps no log of requests.
func runPocketBase(ctx context.Context, dir string) (*server, error) {
	binary, err := builtPocketBase(ctx, dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "pocketbase")
	if err := setUp(ctx, dir, binary, "superuser", "upsert", pocketBaseAdmin, password, "--dir", data); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s, err := begin(binary, "serve", "--dir", data, "--http", address)
	if err != nil {
		return nil, err
	}
	token, err := fillPocketBase(ctx, "http://"+address, dir, filepath.Join(data, "data.db"))
	if err != nil {
		s.stop()
		return nil, err
	}
	s.ready = map[string]any{"url": "http://" + address, "bearer": token}
	return s, nil
}

const (
	pocketBaseCollection = `{"name": "events", "fields": [
	{"name": "id", "type": "text", "system": true, "primaryKey": true, "required": true, "max": 100, "pattern": "^[a-zA-Z0-9_]+$"},
	{"name": "type", "type": "text"}, {"name": "createdAt", "type": "number"}, {"name": "body", "type": "json"}],
	"indexes": ["create index events_by_type on events (type, createdAt desc, id desc)"]}`
	pocketBaseEvent = `insert into events (id, type, createdAt, body) values ($1, $2, $3, $4)`
)

// fillPocketBase creates the collection and writes the events into its database, because
// the API takes a request for each. It returns the superuser's token.
func fillPocketBase(ctx context.Context, address, dir, database string) (token string, err error) {
	if err := untilAnswer(address+"/api/health", time.Now().Add(answerWaitMax), false); err != nil {
		return "", err
	}
	text, err := ask(http.DefaultClient, "", "POST", address+"/api/collections/_superusers/auth-with-password",
		fmt.Sprintf(`{"identity": %q, "password": %q}`, pocketBaseAdmin, password))
	if err != nil {
		return "", err
	}
	var signedIn struct{ Token string }
	if err := json.Unmarshal(text, &signedIn); err != nil {
		return "", err
	}
	if _, err := ask(http.DefaultClient, signedIn.Token, "PATCH", address+"/api/settings", `{"logs": {"maxDays": 0}}`); err != nil {
		return "", err
	}
	if _, err := ask(http.DefaultClient, signedIn.Token, "POST", address+"/api/collections", pocketBaseCollection); err != nil {
		return "", err
	}
	db, err := sql.Open("sqlite", "file:"+url.PathEscape(database)+"?_pragma=busy_timeout(5000)&_pragma=cache_size(-262144)")
	if err != nil {
		return "", err
	}
	defer db.Close()
	if err := insertEvents(ctx, db, dir, pocketBaseEvent); err != nil {
		return "", err
	}
	_, err = db.ExecContext(ctx, `analyze; pragma wal_checkpoint(truncate)`)
	return signedIn.Token, err
}

// pocketBasePaths ask for whole records, as a choice of fields takes it more time, and do not
// have the pages counted.
var pocketBasePaths = paths{
	page: func(before int) string {
		filter := "type='" + benchType + "'"
		if before > 0 {
			filter += " && createdAt<=" + strconv.Itoa(before)
		}
		return "/api/collections/events/records?" + url.Values{"filter": {filter}, "sort": {"-createdAt,-id"},
			"perPage": {strconv.Itoa(benchPage)}, "skipTotal": {"1"}}.Encode()
	},
	event: func(id string) string { return "/api/collections/events/records/" + id },
	events: func(answer []byte) (list []any, err error) {
		type record struct{ Body any }
		var page struct {
			record
			Items []record
		}
		err = json.Unmarshal(answer, &page)
		for _, r := range append(page.Items, page.record) {
			if r.Body != nil {
				list = append(list, r.Body)
			}
		}
		return list, err
	},
}
