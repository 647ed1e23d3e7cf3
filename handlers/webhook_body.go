package handlers

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

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
	"since": "from", "start": "from", "after": "from", "until": "to", "end": "to", "before": "to",
	"signing_secret": "secret", "key": "secret", "grace": "overlap", "ids": "events", "event_ids": "events", "status": "state",
}

const webhookDepthMax = 3 // nesting of a body

// members are those of a JSON body. The first one that cannot be read is kept as refused.
type members struct {
	snapshot.Value
	refused *problem
}

// readMembers reads the body of a call, an object of known members. Unknown ones are
// refused, because a misspelt filter would send more than was meant. A body that may be
// left out counts as an empty object.
func (c *webhookCall) readMembers(mayBeAbsent bool, known ...string) (*members, error) {
	text, err := readBody(c.w, c.r)
	if err != nil {
		return nil, err
	}
	if err := c.alive(); err != nil {
		return nil, err
	}
	if mayBeAbsent && len(bytes.TrimSpace(text)) == 0 {
		return &members{Value: snapshot.ObjectOf()}, nil
	}
	if err := requireWebhookType(c.r); err != nil {
		return nil, err
	}
	body, err := snapshot.Parse(text, webhookDepthMax)
	if err != nil {
		return nil, resourceProblem(err)
	}
	if body.Kind() != snapshot.Object {
		return nil, newProblem(http.StatusBadRequest, "invalid_json", "The body must be a JSON object.")
	}
	for _, m := range body.Members() {
		if !slices.Contains(known, m.Name) {
			return nil, unknownWebhookMember(m.Name, known)
		}
	}
	return &members{Value: body}, nil
}

// requireWebhookType admits JSON; a PATCH may call its merge patch either.
func requireWebhookType(r *http.Request) error {
	if r.Method == http.MethodPatch {
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
			return requireMediaType(r, mergePatchType)
		}
	}
	return requireMediaType(r, "application/json")
}

func unknownWebhookMember(name string, known []string) *problem {
	shown := shownName(name)
	p := newProblem(http.StatusBadRequest, "unknown_field", "%s is not a member of this request.", shown).on(shown)
	near, ok := webhookMembersMeant[strings.ToLower(name)]
	if !ok || !slices.Contains(known, near) {
		near, ok = spelling.Nearest(name, slices.Values(known))
	}
	if ok {
		p.description = strings.TrimSuffix(p.description, ".") + "; did you mean " + near + "?"
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
		m.refused = invalidParameter(name, format, args...)
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
	if eventlog.IsID(text) && !isDigits(text) {
		return webhook.FromEvent(text)
	}
	at, refused := parseTimestamp(name, text)
	if refused != nil && m.refused == nil {
		m.refused = refused
	}
	return webhook.FromTime(at)
}
