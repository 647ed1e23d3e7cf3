package handlers_test

import (
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestCommandsForNamesThatLookLikeFlags: a command that a page shows can be pasted, whatever
// name somebody else has chosen.
//
// Promise (RFC 9110, RFC 9112): commands that pages show take any name as a name, also one that
// begins with a hyphen
func TestCommandsForNamesThatLookLikeFlags(t *testing.T) {
	h, b := deskHouse(t, func(c *handlers.Config) { c.Demo = &web.Demo{} })
	for id, want := range map[string]string{
		"-rf": "-- -rf", "--yes": "-- --yes", "-$(id)": "-- '-$(id)'", "a;id": "'a;id'", "plain": "plain",
	} {
		u := h.operator(t, id)
		if text := words(t, b.get(t, "/desk/users/"+u.Subject())); !strings.Contains(text, "tollhouse user delete "+want) {
			t.Errorf("the page of user %q lacks the command with %s: %s", id, want, text)
		}
		spec := store.ClientSpec{Name: "Till", RedirectURIs: []string{storetest.CallbackURI}}
		c := must.Get(h.CreateFixedClient(t.Context(), id, secret.Token{}, spec))(t)
		if text := words(t, b.get(t, "/desk/clients/"+c.ID)); !strings.Contains(text, "tollhouse client delete "+want) {
			t.Errorf("the page of client %q lacks the command with %s: %s", id, want, text)
		}
		update := "tollhouse client update " + want + ` \ --add-redirect-uri 'https://b.example/'`
		if id[0] == '-' {
			update = `tollhouse client update \ --add-redirect-uri 'https://b.example/' ` + want
		}
		if text := words(t, h.get(t, h.authURL("client_id", id, "redirect_uri", "https://b.example/"))); !strings.Contains(text, update) {
			t.Errorf("the error page of client %q lacks %s: %s", id, update, text)
		}
	}
}
