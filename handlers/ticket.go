package handlers

import (
	"encoding/json"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// ticket is what a consent screen carries: the request that it asks about and
// the sign-in that it asks. It is sealed by the server key, so the decision can
// only be about what was shown, to whom it was shown; and it is decided once.
type ticket struct {
	ID      string `json:"id"`
	Session string `json:"session"` // the form of its hash
	User    string `json:"user"`
	Query   string `json:"query"`
	// Scope is what was shown. Without one in the query it is the client's, and
	// that may grow while the person thinks.
	Scope  store.Scope `json:"scope"`
	Millis int64       `json:"at"`
}

const ticketLabel = "consent ticket"

func (s *Server) sealTicket(a authRequest, session *browserSession) string {
	plain, err := json.Marshal(ticket{
		ID: secret.Text(), Session: s.sessionMark(session.token), User: session.User.Subject(),
		Query: a.query, Scope: a.scope, Millis: s.store.Now().UnixMilli(),
	})
	if err != nil {
		panic("handlers: ticket cannot be encoded: " + err.Error())
	}
	return s.key.Seal(ticketLabel, plain)
}

func (s *Server) openTicket(sealed string) (ticket, bool) {
	plain, ok := s.key.Open(ticketLabel, sealed)
	if !ok {
		return ticket{}, false
	}
	var t ticket
	return t, json.Unmarshal(plain, &t) == nil
}

// sessionMark names a session without giving it away.
func (s *Server) sessionMark(token secret.Token) string {
	return s.key.MAC(ticketLabel, token.Reveal())
}

// belongsTo reports whether the ticket was made for this sign-in.
func (t ticket) belongsTo(s *Server, session *browserSession) bool {
	return secret.EqualText(t.Session, s.sessionMark(session.token)) && t.User == session.User.Subject()
}

// ends returns when the ticket may not be decided any more.
func (t ticket) ends(lives store.Lifetimes) time.Time {
	return time.UnixMilli(t.Millis).Add(lives.Ticket)
}
