package handlers

import (
	"errors"
	"net/http"

	"tollhouse/store"
)

// adminPurgeEvents is POST /admin/event-purge: the events of an account, or of
// one of its resources, are removed for good, with the snapshots. It writes its
// own audit line, before the first event goes: half a purge is one too.
func (s *Server) adminPurgeEvents(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Account  string `json:"account"`
		Kind     string `json:"kind"`
		Resource string `json:"resource"`
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	if asked.Account == "" { // no default here: what goes for good is named
		return invalidRequest("account is missing.").on("account")
	}
	takeTime(w)
	noteAdmin(r, "account_id", asked.Account)
	removed, err := s.store.PurgeEvents(r.Context(), by(r.Context()), store.Purge{Account: asked.Account, Kind: asked.Kind, Resource: asked.Resource})
	if errors.Is(err, store.ErrNotFound) {
		return absent("account", asked.Account, "tollhouse account list shows those that there are").because(err)
	}
	var bad *store.InvalidError
	if errors.As(err, &bad) {
		return invalidValue(bad)
	}
	if err != nil {
		return err
	}
	answer := map[string]any{"account": asked.Account, "events": removed.Events, "resources": removed.Resources}
	if asked.Resource != "" {
		answer["kind"], answer["resource"] = asked.Kind, asked.Resource
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}
