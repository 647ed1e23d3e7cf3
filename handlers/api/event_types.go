package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
)

type eventTypeJSON struct {
	Name          string `json:"name"`
	Meaning       string `json:"meaning,omitempty"` // only for types in the catalogue
	Schema        string `json:"schema"`
	Count         uint64 `json:"count"`
	LastCreatedAt *int64 `json:"lastCreatedAt,omitempty"`
}

type eventTypesJSON struct {
	Object  string          `json:"object"`
	Data    []eventTypeJSON `json:"data"`
	HasMore bool            `json:"hasMore"`
}

// listEventTypes is GET /api/event-types: the catalogue's types and those of the
// account's events.
func (s *Server) listEventTypes(w http.ResponseWriter, r *http.Request) error {
	if refused := RefuseQuery(r); refused != nil {
		return refused
	}
	if !web.AcceptsJSON(r) {
		return web.NotAcceptable()
	}
	account := web.PrincipalFrom(r.Context()).Account
	types, more, err := s.site.Store.Events.ListEventTypes(r.Context(), account)
	if err != nil {
		return err
	}
	list := eventTypesJSON{Object: "list", Data: make([]eventTypeJSON, 0, len(types)), HasMore: more}
	for i := range types {
		use := &types[i]
		row := eventTypeJSON{Name: use.Name, Meaning: use.Meaning, Schema: s.site.Base() + schemaOf(use.Type), Count: use.Count}
		if use.Count > 0 {
			row.LastCreatedAt = &use.LastCreatedAt
		}
		list.Data = append(list.Data, row)
	}
	body := web.EncodeJSON(list)
	// Whatever changes the list changes its bytes.
	sum := sha256.Sum256(append([]byte(account+"\x00"), body...))
	if web.NotModified(w, r, `W/"`+hex.EncodeToString(sum[:8])+`"`) {
		return nil
	}
	if err := web.FactsFrom(r.Context()).Lease.Settle(r.Context(), len(body)); err != nil {
		return err
	}
	web.WriteBody(w, http.StatusOK, web.AsJSON, append(body, '\n'))
	return nil
}

// schemaOf returns the address of the schema for a type's snapshots.
func schemaOf(t eventlog.Type) string {
	return web.OpenAPIPath + "#/components/schemas/" + SchemaName(t.Kind())
}
