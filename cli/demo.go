package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// The demo instance is the same every time, and says so in its names: nobody
// should take these credentials for a secret, or the customers for somebody.
const (
	demoClientID     = "demo"
	demoClientSecret = "tollcs_DemoClientSecretThatEverybodyKnows0000000003NHca9"
	demoRedirectURI  = "http://127.0.0.1/callback"
	demoUsername     = "demo"
	demoPassword     = "demo-password"
	demoPasswordHash = "$argon2id$v=19$m=19456,t=2,p=1$YSBkZW1vJ3MsIHB1YmxpYw$G2Rj924utNcIj9rfyX0Vk/1Fwl3jKL8GESUi/j57KNo"
	demoAccount      = "acct_demo"
)

func demo() *handlers.Demo {
	return &handlers.Demo{
		ClientID: demoClientID, ClientSecret: demoClientSecret, RedirectURI: demoRedirectURI,
		Username: demoUsername, Password: demoPassword, Account: demoAccount,
	}
}

// seedDemo makes the demo client and account.
func seedDemo(ctx context.Context, s *store.Store) error {
	sec, ok := secret.Parse(secret.ClientSecret, demoClientSecret)
	if !ok {
		panic("cli: the demo client secret is not one")
	}
	if _, err := s.CreateFixedClient(ctx, demoClientID, sec, store.ClientSpec{Name: "Demo application", RedirectURIs: []string{demoRedirectURI}}); err != nil {
		return err
	}
	_, err := s.CreateAccount(ctx, demoAccount, "Demo account")
	return err
}

// seedDemoHistory records the account's history, which ends at the time given.
func seedDemoHistory(ctx context.Context, s *store.Store, now time.Time) error {
	refused, err := importAll(ctx, s, demoAccount, demoHistory(now))
	if len(refused) > 0 {
		panic("cli: the demo's history holds what is not an event: " + refused[0].Reason)
	}
	return err
}

// importAll records lines, up to the first that is refused.
func importAll(ctx context.Context, s *store.Store, account string, lines [][]byte) ([]store.LineError, error) {
	importer, err := s.NewImporter(account, store.ImportOptions{})
	if err != nil {
		return nil, err
	}
	var refused []store.LineError
	for _, line := range lines {
		found, err := importer.Add(ctx, line, 0)
		if refused = append(refused, found...); err != nil || importer.Stopped() {
			return refused, err
		}
	}
	found, err := importer.Flush(ctx)
	return append(refused, found...), err
}

// seedDemoUser makes the demo user under the hash of the password, for to hash it
// anew at each start takes longer than all else, and more memory.
func seedDemoUser(ctx context.Context, s *store.Store) error {
	_, err := s.CreateFixedUser(ctx, demoUsername, demoAccount, demoPasswordHash)
	return err
}

// demoStep is one change in the history, so long ago. Its patch is a JSON merge
// patch of the resource, in which {today} and {+14} stand for dates.
type demoStep struct {
	ago      time.Duration
	source   string
	location string
	typ      string
	resource string
	patch    string
}

// demoHistory returns the events of the demo account, oldest first, in the form
// that an import reads. Their snapshots and previous values are computed as a
// change on the API computes them.
func demoHistory(now time.Time) [][]byte {
	resources := map[string]snapshot.Value{}
	var lines [][]byte
	for _, step := range demoSteps {
		at := now.Add(-step.ago)
		kind, _, _ := strings.Cut(step.typ, ".")
		before := resources[step.resource]
		patch, err := snapshot.Parse([]byte(withDates(step.patch, at)), snapshot.DepthMax)
		if err != nil {
			panic("cli: a patch of the demo's history is not JSON: " + err.Error())
		}
		after := snapshot.Complete(kind, step.resource, snapshot.Merge(before, patch), before, at.UTC().Format(time.DateOnly))
		data := []snapshot.Member{{Name: "object", Value: after}}
		if before.Sort() == snapshot.Object {
			if previous, differs := snapshot.Previous(before, after); differs {
				data = append(data, snapshot.Member{Name: "previousAttributes", Value: previous})
			}
		}
		resources[step.resource] = after
		lines = append(lines, demoLineOf(step, at, snapshot.ObjectOf(data...)))
	}
	return lines
}

func demoLineOf(step demoStep, at time.Time, data snapshot.Value) []byte {
	line := fmt.Appendf(nil, `{"owner":%q,"resource":%q,"source":%q,"location":%q,"type":%q,"eventData":`,
		demoAccount, step.resource, step.source, step.location, step.typ)
	line = data.Append(line)
	line = append(line, `,"createdAt":`...)
	return append(strconv.AppendInt(line, at.Unix(), 10), '}')
}

func withDates(patch string, at time.Time) string {
	return strings.NewReplacer("{today}", at.UTC().Format(time.DateOnly), "{+14}", at.UTC().AddDate(0, 0, 14).Format(time.DateOnly)).Replace(patch)
}
