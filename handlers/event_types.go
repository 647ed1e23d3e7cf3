package handlers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"

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
	if refused := refuseQuery(r); refused != nil {
		return refused
	}
	if !acceptsJSON(r) {
		return notAcceptable()
	}
	types, more, err := s.store.ListEventTypes(r.Context(), principalFrom(r.Context()).Account)
	if err != nil {
		return err
	}
	list := eventTypesJSON{Object: "list", Data: make([]eventTypeJSON, 0, len(types)), HasMore: more}
	for i := range types {
		use := &types[i]
		row := eventTypeJSON{Name: use.Name, Meaning: use.Meaning, Schema: s.base + schemaOf(use.Type), Count: use.Count}
		if use.Count > 0 {
			row.LastCreatedAt = &use.LastCreatedAt
		}
		list.Data = append(list.Data, row)
	}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	// Whatever changes the list changes its bytes.
	sum := sha256.Sum256(body)
	if notModified(w, r, `W/"`+hex.EncodeToString(sum[:8])+`"`) {
		return nil
	}
	if err := factsFrom(r.Context()).demand.settle(r.Context(), len(body)); err != nil {
		return err
	}
	writeBody(w, http.StatusOK, asJSON, append(body, '\n'))
	return nil
}

// schemaOf returns the address of the schema for a type's snapshots.
func schemaOf(t eventlog.Type) string {
	return openAPIPath + "#/components/schemas/" + schemaName(t.Kind())
}
