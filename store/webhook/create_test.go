package webhook_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

const hook = "https://hooks.example.com/in?token=abc"

func TestWebhookEndpoint(t *testing.T) {
	t.Parallel()

	t.Run("begins_at_its_own_created_event", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		e, token, err := s.Webhooks.Create(t.Context(), webhook.System, "acct_1", webhook.Settings{URL: hook})
		if err != nil || !strings.HasPrefix(token.Reveal(), "whsec_") {
			t.Fatalf("Create = %v, %v", e, err)
		}
		text := string(must.Get(json.Marshal(e.Object()))(t))
		if strings.Contains(text, token.Reveal()) || !strings.Contains(text, `"cursor":"evt_`) || !strings.Contains(text, `"types":["*"]`) {
			t.Errorf("the object is %s", text)
		}
		if _, _, err := s.Webhooks.Create(t.Context(), webhook.System, "acct_1", webhook.Settings{URL: hook}); !errors.Is(err, record.ErrExists) {
			t.Errorf("a second endpoint with the same URL: %v, want ErrExists", err)
		}
		_, err = s.Webhooks.Update(t.Context(), webhook.System, e.ID, webhook.Change{Types: []string{"customer.*", "customer.*"}})
		must.Do(t, err)
		e = must.Get(s.Webhooks.Find(t.Context(), webhook.By{Account: "acct_1"}, e.ID))(t)
		if e.Revision != 2 || len(e.Types) != 1 {
			t.Errorf("after an update it is %+v", e)
		}
		if _, err := s.Webhooks.Find(t.Context(), webhook.By{Account: "acct_2"}, e.ID); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("another account finds it: %v", err)
		}
		must.Do(t, s.Webhooks.Delete(t.Context(), webhook.System, e.ID))
		if list := must.Get(s.Webhooks.List(t.Context(), webhook.System, "", "", 10))(t); len(list) != 0 {
			t.Errorf("after Delete there are %d", len(list))
		}
	})
}
