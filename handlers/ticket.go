package handlers

import (
	"encoding/json"
	"time"

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

func (s *Server) sealTicket(a authRequest, session *browserSession) string {
	plain, err := json.Marshal(ticket{
		ID: secret.Text(nil), Session: s.sessionMark(session.token), User: session.User.Subject(),
		Query: a.query, Scope: a.scope, Epoch: a.client.ConsentEpoch, Millis: s.store.Now().UnixMilli(),
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

// sessionMark identifies a session without revealing it.
func (s *Server) sessionMark(token secret.Token) string {
	return s.key.MAC(ticketLabel, token.Reveal())
}

// belongsTo reports whether the ticket was made for this sign-in.
func (t ticket) belongsTo(s *Server, session *browserSession) bool {
	return secret.EqualText(t.Session, s.sessionMark(session.token)) && t.User == session.User.Subject()
}

// ends returns when the ticket expires.
func (t ticket) ends(lives store.Lifetimes) time.Time {
	return time.UnixMilli(t.Millis).Add(lives.Ticket)
}
