package api

import (
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/webhook"
)

// webhookMembersMeant maps the names in other APIs, in lower case, to our members.
var webhookMembersMeant = map[string]string{
	"event_types": "types", "eventtypes": "types", "enabled_events": "types", "enabledevents": "types", "event_type": "types", "filter_types": "types", "filtertypes": "types", "topics": "types",
	"endpoint": "url", "endpoint_url": "url", "target": "url", "address": "url", "callback_url": "url", "uri": "url",
	"name": "description", "metadata": "description", "ordering": "order", "ordered": "order",
	"since": "from", "start": "from", "until": "to", "end": "to", // which include both ends, as after and before do not
	"signing_secret": "secret", "key": "secret", "grace": "overlap", "ids": "events", "event_ids": "events", "status": "state",
}

// readMembers reads the body of a call about webhook endpoints.
func (c *webhookCall) readMembers(mayBeAbsent bool, known ...string) (webhookMembers, error) {
	m, err := ReadMembers(c.w, c.r, c.alive, mayBeAbsent, webhookMembersMeant, known...)
	return webhookMembers{m}, err
}

// webhookMembers are those of such a body.
type webhookMembers struct{ *Members }

// secret returns a secret of the caller's own, or the zero Token.
func (m webhookMembers) secret() secret.Token {
	if !m.Given("secret") {
		return secret.Token{}
	}
	token, ok := secret.ParseWebhookSecret(m.Text("secret"))
	if !ok {
		m.Refuse("secret", "must be whsec_ and the standard base64 of 24 to 64 bytes.")
	}
	return token
}

// from returns where deliveries begin: now, start, the id of an event, or a time in
// seconds, as digits or as a number.
func (m webhookMembers) from(name string) webhook.From {
	v, _ := m.Member(name)
	var text string
	switch {
	case v.Kind() == snapshot.Number:
		text = v.String()
	case !m.Given(name):
		return webhook.From{}
	default:
		text = m.Text(name)
	}
	switch text {
	case "now":
		return webhook.FromNow()
	case "start":
		return webhook.FromStart()
	}
	if eventlog.IsID(text) && !web.IsDigits(text) {
		return webhook.FromEvent(text)
	}
	at, refused := parseTimestamp(name, text)
	if refused != nil && m.refused == nil {
		m.refused = refused
	}
	return webhook.FromTime(at)
}
