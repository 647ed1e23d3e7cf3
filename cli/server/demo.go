package server

import (
	"bytes"
	"context"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/history"
	"tollhouse/store/secret"
)

// The demo data is the same every time. Its names say that the credentials are not
// secret and the customers not real.
const (
	demoClientID       = "demo"
	demoClientSecret   = "tollcs_DemoClientSecretThatEverybodyKnows0000000003NHca9"
	demoRedirectURI    = "http://127.0.0.1/callback"
	demoPlatformID     = "demo-platform"
	demoPlatformSecret = "tollcs_DemoPlatformSecretThatEverybodyKnows00000003GemWd"
	demoUsername       = "demo"
	demoPassword       = "demo-password"
	demoPasswordHash   = "$argon2id$v=19$m=8,t=1,p=1$YSBkZW1vJ3MsIHB1YmxpYw$saL7PtlbSvVF3PvO2fz+Mq9SrhXTMQSgOX9fZXEbQwY" // as cheap as dev's others
	demoAccount        = "acct_demo"

	// With these values the history has every event type of the specification
	// (TestDemoHistory).
	demoSeed   = 1
	demoEvents = 100
	demoAge    = 34 * 24 * time.Hour // of the first event
	demoRest   = 8 * time.Minute     // after the last
)

func demo() *web.Demo {
	return &web.Demo{
		ClientID: demoClientID, ClientSecret: demoClientSecret, RedirectURI: demoRedirectURI,
		PlatformClientID: demoPlatformID, PlatformSecret: demoPlatformSecret,
		Username: demoUsername, Password: demoPassword, Account: demoAccount, Operator: true,
	}
}

// seedDemo creates the demo's client, account, history up to now, and user. The user is
// created from a fixed hash: hashing the password at each start would take more time and
// memory than everything else.
func seedDemo(ctx context.Context, s *store.Store, now time.Time) error {
	for _, c := range []struct {
		id, secret string
		spec       store.ClientSpec
	}{
		{demoClientID, demoClientSecret, store.ClientSpec{Name: "Demo application", RedirectURIs: []string{demoRedirectURI}}},
		{demoPlatformID, demoPlatformSecret, store.ClientSpec{Name: "Demo platform", Platform: true, Scopes: append(store.ScopeNames(), store.PlatformScopeNames()...)}},
	} {
		sec, ok := secret.Parse(secret.ClientSecret, c.secret)
		if !ok {
			panic("server: the demo client secret is invalid")
		}
		if _, err := s.CreateFixedClient(ctx, c.id, sec, c.spec); err != nil {
			return err
		}
	}
	if _, err := s.CreateAccount(ctx, demoAccount, "Demo account"); err != nil {
		return err
	}
	if err := seedDemoHistory(ctx, s, now); err != nil {
		return err
	}
	_, err := s.CreateFixedUser(ctx, store.UserSpec{Username: demoUsername, Account: demoAccount, Operator: true}, demoPasswordHash)
	return err
}

// seedDemoHistory records the account's history, which ends shortly before now.
func seedDemoHistory(ctx context.Context, s *store.Store, now time.Time) error {
	g := history.New(history.Plan{Seed: demoSeed, Events: demoEvents, Span: demoAge - demoRest, Until: now.Add(-demoRest)})
	lines := make([][]byte, demoEvents)
	for i := range lines {
		line, _ := g.Next()
		lines[i] = bytes.Clone(bytes.TrimSuffix(line, []byte("\n")))
	}
	refused, err := importAll(ctx, s, demoAccount, lines)
	if len(refused) > 0 {
		panic("server: the demo history has an invalid event: " + refused[0].Reason)
	}
	return err
}

// importAll imports lines up to the first one that is refused.
func importAll(ctx context.Context, s *store.Store, account string, lines [][]byte) ([]eventlog.LineError, error) {
	importer, err := s.Events.NewImporter(account, eventlog.ImportOptions{})
	if err != nil {
		return nil, err
	}
	var refused []eventlog.LineError
	for _, line := range lines {
		found, err := importer.Add(ctx, line, 0)
		if refused = append(refused, found...); err != nil || importer.Stopped() {
			return refused, err
		}
	}
	found, err := importer.Flush(ctx)
	return append(refused, found...), err
}
