package cli

import (
	"context"
	"errors"
	"time"

	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/server"
	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/handlers/admin"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/secret"
)

// With --store a command opens the database and serves its own requests, whether servers
// run on it or not: they share the store.

// databaseAddress returns the address of the database that --store names.
func (p *program) databaseAddress() (*pgkv.Address, error) {
	if p.dataGiven {
		return nil, term.Usage("leave one of them out", "--data cannot be given with %s: the data is in one place or the other", p.store.Flag())
	}
	return p.store.Address()
}

// connectDatabase serves the admin API over the database in this process, with the settings
// that the servers agreed on.
func (p *program) connectDatabase(ctx context.Context, n need) (*adminClient, error) {
	address, err := p.databaseAddress()
	if err != nil {
		return nil, err
	}
	datadir.MemoryDefault.Limit(p.environ)
	rules, err := server.ParseWebhookAllow(p.webhookAllow)
	if err != nil {
		return nil, err
	}
	log, known := p.QuietLog(), p.knownKey("")
	opened, err := database.Open(ctx, database.Options{
		Address: address, Mute: known == (secret.Key{}), Store: datadir.Options{Key: keyOrAny(known), Log: log},
	}, n == makesData)
	if errors.Is(err, database.ErrEmpty) && n == triesData {
		p.Note("the database has no data yet")
		return p.openAdmin(ctx, datadir.Options{Log: log}, secret.Key{}, "", nil)
	}
	if errors.Is(err, database.ErrEmpty) {
		return nil, term.Fail(term.ExitNotFound, "name the database with "+p.store.Flag(), "the database %s has no data", nameOf(address))
	}
	if err != nil {
		return nil, err
	}
	a := newOwnAdmin(handlers.Config{
		Store: opened.Store, Key: known, KeyFingerprint: opened.Key, PublicURL: opened.Agreed.URL(), Log: log,
		Doctor: server.StoreCheck(opened.Opened), WebhookRules: rules,
	})
	a.database = opened
	if opened.Created {
		a.created = nameOf(address)
	}
	a.keyless = known == (secret.Key{}) || opened.Key != "" && opened.Key != known.Fingerprint()
	a.wanted = opened.Key
	stop := a.close
	a.close = func() error { return errors.Join(stop(), opened.Close()) }
	return a.asked(ctx)
}

// databaseStatus shows the database and the servers on it.
func (p *program) databaseStatus(ctx context.Context) error {
	address, err := p.databaseAddress()
	if err != nil {
		return err
	}
	found, err := server.DatabaseStatus(ctx, address)
	if errors.Is(err, database.ErrEmpty) {
		return term.Fail(term.ExitUnreachable, "start a server: tollhouse serve --store …", "no server runs on the database, which has no data yet")
	}
	if err != nil {
		return err
	}
	state := admin.StateReady
	if len(found.Servers) == 0 {
		state = "stopped"
	}
	if p.JSON {
		err = p.PrintJSON(struct {
			Status   string                `json:"status"`
			Database *admin.DatabaseStatus `json:"database"`
		}{state, found})
	} else {
		err = p.PrintRows(server.DatabaseRows(*found, time.Now())...)
	}
	if err == nil && len(found.Servers) == 0 {
		return term.Fail(term.ExitUnreachable, "start one: tollhouse serve --store …", "no server runs on the database")
	}
	return err
}
