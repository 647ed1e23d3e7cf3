package webhook

import (
	"slices"
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Exported is an endpoint with what an import of it takes.
type Exported struct {
	Endpoint
	// From is where it is in the log, as [FromEvent] takes it: "" for the last event there is, and for
	// the events of all accounts, whose feed is not exported.
	From string
	// Token is its newest secret, zero if that was sealed with another server key.
	Token secret.Token
}

// ExportNext returns the endpoints of the first account behind the given one that has any, by
// URL. Those of all accounts come first. Behind the last account it returns none.
func (w *Webhooks) ExportNext(r kv.Reader, behind string) (list []Exported, err error) {
	rest := record.NewKey(record.TagWebhook).All()
	if behind != "" {
		rest.Lo = record.After(record.WebhooksKey(record.TagWebhook, behind))
	}
	rest.KeysOnly, rest.Limit = true, 1
	account := ""
	for k := range r.Scan(rest) {
		account, _ = record.CutString(k[1:])
	}
	if account == "" {
		return nil, nil
	}
	return w.ExportOf(r, account)
}

// ExportOf returns the endpoints of an account, by URL.
func (w *Webhooks) ExportOf(r kv.Reader, account string) (list []Exported, err error) {
	endpoints, err := page(r, account, secret.ID{}, true, AccountMax)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(endpoints, func(a, b Endpoint) int { return strings.Compare(a.URL, b.URL) })
	for _, e := range endpoints {
		x := Exported{Endpoint: e}
		if tokens, ok := w.Open(&e); ok {
			x.Token = tokens[0]
		}
		if !e.ofAll() {
			if x.From, err = w.Log.ExportedCursor(r, account, e.Cursor); err != nil {
				return nil, err
			}
		}
		list = append(list, x)
	}
	return list, nil
}
