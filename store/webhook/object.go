package webhook

import (
	"encoding/json"
	"net/url"
	"time"

	"tollhouse/store/snapshot"
)

// Object is an endpoint as the API, the admin API and --json show it.
type Object struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"`
	Account     string          `json:"account"`
	URL         string          `json:"url"`
	Description string          `json:"description"`
	Types       []string        `json:"types"`
	Order       Order           `json:"order"`
	State       string          `json:"state"`
	Disabled    *ObjectDisabled `json:"disabled"`
	Cursor      string          `json:"cursor"`
	Secrets     []ObjectSecret  `json:"secrets"`
	CreatedBy   ObjectCreator   `json:"createdBy"`
	Revision    uint64          `json:"revision"`
	CreatedAt   int64           `json:"createdAt"`
	Status      ObjectStatus    `json:"status"`
}

// ObjectDisabled says who disabled an endpoint, and why.
type ObjectDisabled struct {
	By     Cause  `json:"by"`
	Reason Reason `json:"reason"`
	At     int64  `json:"at"`
}

// ObjectSecret is when a secret was made and when it expires.
type ObjectSecret struct {
	CreatedAt int64  `json:"createdAt"`
	ExpiresAt *int64 `json:"expiresAt"`
}

// ObjectCreator is the client and the user of the token that made an endpoint, or that
// last chose its URL or its position.
type ObjectCreator struct {
	Client *string `json:"client"`
	User   *string `json:"user"`
}

// ObjectStatus says how an endpoint is doing.
type ObjectStatus struct {
	Health        Health     `json:"health"`
	Behind        bool       `json:"behind"`
	BlockedOn     *string    `json:"blockedOn"`
	Attempts      int        `json:"attempts"`
	FailingSince  *int64     `json:"failingSince"`
	NextAttemptAt *int64     `json:"nextAttemptAt"`
	LastAttemptAt *int64     `json:"lastAttemptAt"`
	LastStatus    *int       `json:"lastStatus"`
	LastError     *string    `json:"lastError"`
	Parked        int        `json:"parked"`
	Dead          int        `json:"dead"`
	Gap           *ObjectGap `json:"gap"`
}

// ObjectGap is a stretch of the log that was removed before it was sent.
type ObjectGap struct {
	After           string `json:"after"`
	OldestAvailable string `json:"oldestAvailable"`
	At              int64  `json:"at"`
}

// ObjectDelivery is a delivery as the API shows it.
type ObjectDelivery struct {
	Event         string  `json:"event"`
	Type          string  `json:"type"`
	State         State   `json:"state"`
	Attempts      int     `json:"attempts"`
	LastStatus    *int    `json:"lastStatus"`
	LastError     *string `json:"lastError"`
	LastBody      string  `json:"lastBody,omitempty"`
	MS            int64   `json:"ms"`
	LastAttemptAt *int64  `json:"lastAttemptAt"`
	NextAttemptAt *int64  `json:"nextAttemptAt"`
}

const objectKind = "webhook_endpoint"

// Object returns the endpoint as callers get it. Times are whole seconds.
func (e *Endpoint) Object() Object {
	o := Object{
		ID: e.ID, Object: objectKind, Account: e.Account, URL: e.URL, Description: e.Description, Types: e.Types, Order: e.Order,
		State: e.state(), Cursor: e.text(e.Cursor), Secrets: make([]ObjectSecret, len(e.Secrets)),
		CreatedBy: ObjectCreator{Client: orNull(e.Client), User: orNull(e.User)}, Revision: e.Revision, CreatedAt: e.CreatedAt.Unix(),
		Status: ObjectStatus{
			Health: e.Health(), Behind: e.Behind, FailingSince: seconds(e.Trouble.Since), LastAttemptAt: seconds(e.Last.At),
			LastStatus: orNull(e.Last.Status), LastError: orNull(e.Last.Error), Parked: e.Parked, Dead: e.Dead,
		},
	}
	if why := e.Why(); !why.At.IsZero() {
		o.Disabled = &ObjectDisabled{By: why.By, Reason: why.Reason, At: why.At.Unix()}
	}
	for i, s := range e.Secrets {
		o.Secrets[i] = ObjectSecret{CreatedAt: s.CreatedAt.Unix(), ExpiresAt: seconds(s.ExpiresAt)}
	}
	if e.Head != nil {
		o.Status.BlockedOn, o.Status.Attempts, o.Status.NextAttemptAt = orNull(e.Head.Event), e.Head.Attempts, seconds(e.Head.NextAt)
	}
	if !e.Gap.IsZero() {
		o.Status.Gap = &ObjectGap{After: e.text(e.Gap.After), OldestAvailable: e.text(e.Gap.Oldest), At: e.Gap.At.Unix()}
	}
	return o
}

func (e *Endpoint) state() string {
	if e.Why().At.IsZero() {
		return "enabled"
	}
	return "disabled"
}

// Object returns the delivery as callers get it.
func (d *Delivery) Object() ObjectDelivery {
	return ObjectDelivery{
		Event: d.Event, Type: d.Type, State: d.State, Attempts: d.Attempts, LastStatus: orNull(d.Status), LastError: orNull(d.Error), LastBody: d.Body,
		MS: d.Took.Milliseconds(), LastAttemptAt: seconds(d.LastAt), NextAttemptAt: seconds(d.NextAt),
	}
}

// eventObject is an endpoint as its events contain it. Of the URL they have the scheme,
// host and port: the rest is often a secret, and events are read widely.
type eventObject struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"`
	URL         string          `json:"url"`
	Description string          `json:"description"`
	Types       []string        `json:"types"`
	Order       Order           `json:"order"`
	State       string          `json:"state"`
	Disabled    *ObjectDisabled `json:"disabled"`
	Revision    uint64          `json:"revision"`
	Gap         *ObjectGap      `json:"gap,omitempty"`
}

func (e *Endpoint) snapshot(withGap bool) (snapshot.Value, error) {
	o := e.Object()
	shown := eventObject{
		ID: o.ID, Object: o.Object, URL: e.origin(), Description: o.Description, Types: o.Types, Order: o.Order, State: o.State, Disabled: o.Disabled, Revision: o.Revision,
	}
	if withGap {
		shown.Gap = o.Status.Gap
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return snapshot.Value{}, err
	}
	return snapshot.Parse(text, snapshot.DepthMax)
}

// origin returns scheme, host and port of the URL.
func (e *Endpoint) origin() string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Host returns the host and port of the URL, for logs.
func (e *Endpoint) Host() string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// orNull returns nil for a zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func seconds(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return orNull(t.Unix())
}
