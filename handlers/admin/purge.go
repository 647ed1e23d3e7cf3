package admin

import (
	"errors"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
)

// purgeEvents is POST /admin/event-purge: it deletes the events of an account,
// or of one of its resources, with their snapshots. It writes its audit line before
// the first deletion, since an interrupted purge has deleted something too.
func (s *Server) purgeEvents(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Account  string `json:"account"`
		Kind     string `json:"kind"`
		Resource string `json:"resource"`
	}
	if err := readAdminBody(w, r, &asked); err != nil {
		return err
	}
	if asked.Account == "" { // no default for a deletion
		return web.InvalidRequest("account is missing.").On("account")
	}
	takeTime(w)
	noteAdmin(r, "account_id", asked.Account)
	removed, err := s.site.Store.PurgeEvents(r.Context(), web.By(r.Context()), eventlog.Purge{Account: asked.Account, Kind: asked.Kind, Resource: asked.Resource})
	if errors.Is(err, record.ErrNotFound) {
		return web.Absent("account", asked.Account, "tollhouse account list shows the accounts").Because(err)
	}
	var bad *record.InvalidError
	if errors.As(err, &bad) {
		return web.InvalidValue(bad)
	}
	if err != nil {
		return err
	}
	answer := map[string]any{"account": asked.Account, "events": removed.Events, "resources": removed.Resources}
	if asked.Resource != "" {
		answer["kind"], answer["resource"] = asked.Kind, asked.Resource
	}
	web.WriteJSON(w, http.StatusOK, answer)
	return nil
}
