package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/spelling"
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

const webhookDepthMax = 3 // nesting of a body

// members are those of a JSON body. The first one that cannot be read is kept as refused.
type members struct {
	snapshot.Value
	refused *web.Problem
}

// readMembers reads the body of a call, an object of known members. Unknown ones are
// refused, because a misspelt filter would send more than was meant. A body that may be
// left out counts as an empty object.
func (c *webhookCall) readMembers(mayBeAbsent bool, known ...string) (*members, error) {
	accepted := []string{web.AsJSON}
	if c.r.Method == http.MethodPatch {
		accepted = patchTypes
	}
	text, err := web.ReadJSON(c.w, c.r, mayBeAbsent, accepted...)
	if err != nil {
		return nil, err
	}
	if err := c.alive(); err != nil {
		return nil, err
	}
	if text == nil {
		return &members{Value: snapshot.ObjectOf()}, nil
	}
	body, err := snapshot.Parse(text, webhookDepthMax)
	if err != nil {
		return nil, resourceProblem(err)
	}
	if body.Kind() != snapshot.Object {
		return nil, web.NewProblem(http.StatusBadRequest, "invalid_json", "The body must be a JSON object.")
	}
	for _, m := range body.Members() {
		if !slices.Contains(known, m.Name) {
			return nil, unknownWebhookMember(m.Name, known)
		}
	}
	return &members{Value: body}, nil
}

func unknownWebhookMember(name string, known []string) *web.Problem {
	shown := web.ShownName(name)
	p := web.NewProblem(http.StatusBadRequest, "unknown_field", "%s is not a member of this request.", shown).On(shown)
	near, ok := webhookMembersMeant[strings.ToLower(name)]
	if !ok || !slices.Contains(known, near) {
		near, ok = spelling.Nearest(name, slices.Values(known))
	}
	if ok {
		p.Description = strings.TrimSuffix(p.Description, ".") + "; did you mean " + near + "?"
	}
	return p
}

// given reports whether a member was sent, as null or with a value.
func (m *members) given(name string) bool {
	_, ok := m.Member(name)
	return ok
}

func (m *members) refuse(name, format string, args ...any) {
	if m.refused == nil {
		m.refused = web.InvalidParameter(name, format, args...)
	}
}

// err returns what was refused, or nil.
func (m *members) err() error {
	if m.refused == nil {
		return nil
	}
	return m.refused
}

// text returns a member that must be a string, or "" if it is absent or null.
func (m *members) text(name string) string {
	v, _ := m.Member(name)
	switch v.Kind() {
	case snapshot.Null:
		return ""
	case snapshot.String:
		return v.Text()
	}
	m.refuse(name, "must be a string.")
	return ""
}

// texts returns a member that must be a list of strings, or nil if it is absent or null.
func (m *members) texts(name string) []string {
	v, _ := m.Member(name)
	if v.Kind() == snapshot.Null {
		return nil
	}
	list := make([]string, 0, len(v.Elements()))
	for _, e := range v.Elements() {
		if e.Kind() != snapshot.String {
			break
		}
		list = append(list, e.Text())
	}
	if v.Kind() != snapshot.Array || len(list) < len(v.Elements()) {
		m.refuse(name, "must be a list of strings.")
	}
	return list
}

// seconds returns a member that must be a whole number up to most, or other if it is
// absent or null.
func (m *members) seconds(name string, other, most int64) int64 {
	v, _ := m.Member(name)
	if v.Kind() == snapshot.Null {
		return other
	}
	n, err := strconv.ParseInt(v.String(), 10, 64)
	if v.Kind() != snapshot.Number || err != nil || n < 0 || n > most {
		m.refuse(name, "must be a whole number of seconds from 0 to %d.", most)
	}
	return n
}

// secret returns a secret of the caller's own, or the zero Token.
func (m *members) secret() secret.Token {
	if !m.given("secret") {
		return secret.Token{}
	}
	token, ok := secret.ParseWebhookSecret(m.text("secret"))
	if !ok {
		m.refuse("secret", "must be whsec_ and the standard base64 of 24 to 64 bytes.")
	}
	return token
}

// from returns where deliveries begin: now, start, the id of an event, or a time in
// seconds, as digits or as a number.
func (m *members) from(name string) webhook.From {
	v, _ := m.Member(name)
	var text string
	switch {
	case v.Kind() == snapshot.Number:
		text = v.String()
	case !m.given(name):
		return webhook.From{}
	default:
		text = m.text(name)
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
