package oauth

import (
	"encoding/json"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
)

// ticket is the state of a consent screen: the request and the sign-in. It is sealed
// with the server key, so that a decision applies only to what was shown, and only
// once.
type ticket struct {
	ID      string `json:"id"`
	Session string `json:"session"` // the hash in text form
	User    string `json:"user"`
	Query   string `json:"query"`
	// Scope is what was shown. If the query has none, it is the client's, which may
	// grow in the meantime.
	Scope  store.Scope `json:"scope"`
	Epoch  secret.ID   `json:"epoch"` // the client's ConsentEpoch
	Millis int64       `json:"at"`
}

const ticketLabel = "consent ticket"

// newTicket returns that of a screen which is shown now.
func newTicket(key secret.Key, a authRequest, session *web.BrowserSession, now time.Time) ticket {
	return ticket{
		ID: secret.Text(nil), Session: sessionMark(key, session.Token), User: session.User.Subject(),
		Query: a.query, Scope: a.scope, Epoch: a.client.ConsentEpoch, Millis: now.UnixMilli(),
	}
}

func (t ticket) seal(key secret.Key) string {
	plain, err := json.Marshal(t)
	if err != nil {
		panic("oauth: ticket cannot be encoded: " + err.Error())
	}
	return key.Seal(ticketLabel, plain)
}

func openTicket(key secret.Key, sealed string) (ticket, bool) {
	plain, ok := key.Open(ticketLabel, sealed)
	if !ok {
		return ticket{}, false
	}
	var t ticket
	return t, json.Unmarshal(plain, &t) == nil
}

// sessionMark identifies a session without revealing it.
func sessionMark(key secret.Key, token secret.Token) string {
	return key.MAC(ticketLabel, token.Reveal())
}

// belongsTo reports whether the ticket was made for this sign-in.
func (t ticket) belongsTo(key secret.Key, session *web.BrowserSession) bool {
	return secret.EqualText(t.Session, sessionMark(key, session.Token)) && t.User == session.User.Subject()
}

// ends returns when the ticket expires.
func (t ticket) ends(lives store.Lifetimes) time.Time {
	return time.UnixMilli(t.Millis).Add(lives.Ticket)
}

// consent is what a decision on the ticket is about.
func (t ticket) consent(a authRequest, session *web.BrowserSession, lives store.Lifetimes) store.Consent {
	return store.Consent{
		Client: a.client, User: session.User, RedirectURI: a.redirectURI, Scope: a.scope, Challenge: a.challenge,
		Ticket: t.ID, TicketEnds: t.ends(lives), Epoch: t.Epoch, Amr: session.Amr,
	}
}
