package api

import (
	"net/http"

	"tollhouse/handlers/web"
)

// Page is a list in an answer. Cursors are ids of items: on an empty page, the one sent.
type Page[T any] struct {
	Object   string `json:"object"`
	Data     []T    `json:"data"`
	HasMore  bool   `json:"hasMore"`
	Next     string `json:"nextCursor"`
	Previous string `json:"previousCursor"`
}

// PageOf returns a page of items, of which one more than limit was read after a cursor.
func PageOf[I, T any](items []I, limit int, after string, shown func(I) T, id func(T) string) Page[T] {
	page := Page[T]{Object: "list", Data: make([]T, 0, len(items)), HasMore: len(items) > limit, Next: after, Previous: after}
	for _, item := range items[:min(len(items), limit)] {
		page.Data = append(page.Data, shown(item))
	}
	if n := len(page.Data); n > 0 {
		page.Next, page.Previous = id(page.Data[n-1]), id(page.Data[0])
	}
	return page
}

// SendPage sends a page within the budget of the caller's account.
func SendPage(w http.ResponseWriter, r *http.Request, page any) error {
	body := web.EncodeJSON(page)
	if err := web.FactsFrom(r.Context()).Lease.Settle(r.Context(), len(body)); err != nil {
		return err
	}
	web.WriteBody(w, http.StatusOK, "application/json", append(body, '\n'))
	return nil
}
