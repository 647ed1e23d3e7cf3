package dev

import (
	"bytes"
	"encoding/json"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tollhouse/store/snapshot"
)

// The bounds of a journal. When one is reached, the oldest entries go.
const (
	EntriesMax     = 10_000
	JournalSizeMax = 16 << 20 // bytes
	// BodySeenMax is how much of a body the journal keeps.
	BodySeenMax = 4 << 10 // bytes

	entryOverhead = 256 // bytes of an entry besides its texts
)

// Exchange is a request and its answer.
type Exchange struct {
	RequestID    string
	At           time.Time
	Method, Path string
	RawQuery     string
	Host         string
	Header       map[string][]string
	Body         []byte // at most BodySeenMax
	BodyCut      bool
	Status       int // 0 for no answer
	Error        string
	ClientID     string
	Username     string
	Account      string
	GrantType    string
	Fault        string // id of the rule that hit the request
	Notices      []string
	Took         time.Duration
}

// entry is an Exchange in the journal.
type entry struct {
	n      int64
	text   []byte // the members after n, as JSON
	method string
	path   string
	client string
	grant  string
	user   string
	fault  string
	status int
	notice bool
}

// json is the entry on the wire.
func (e *entry) json() json.RawMessage {
	return append(strconv.AppendInt([]byte(`{"n":`), e.n, 10), e.text...)
}

func (e *entry) size() int {
	return entryOverhead + len(e.text) + len(e.method) + len(e.path) + len(e.client) + len(e.grant) + len(e.user) + len(e.fault)
}

// Journal keeps the last requests of an instance as they came, secrets included: a tester
// looks for just these, and they are a throwaway instance's. It is safe for concurrent use.
type Journal struct {
	isMasked bool
	mu       sync.Mutex
	entries  []entry
	size     int
	n        int64
	dropped  int64
}

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{} }

// NewMaskedJournal returns an empty journal that keeps the masks of secrets in their place,
// for those who write it into logs that others read.
func NewMaskedJournal() *Journal { return &Journal{isMasked: true} }

// Put adds an exchange.
func (j *Journal) Put(x Exchange) {
	var m *masker
	if j.isMasked {
		m = &masker{}
	}
	e := newEntry(x, m)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.n++
	e.n = j.n
	j.entries = append(j.entries, e)
	j.size += e.size()
	for len(j.entries) > EntriesMax || j.size > JournalSizeMax {
		j.size -= j.entries[0].size()
		j.entries[0] = entry{} // releases its texts before append moves the rest
		j.entries = j.entries[1:]
		j.dropped++
	}
}

// Clear removes all entries. Later ones continue the numbering.
func (j *Journal) Clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries, j.size, j.dropped = nil, 0, 0
}

// Count returns how many requests the journal has, and how many of them were answered
// with a notice.
func (j *Journal) Count() (requests, notices int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.entries {
		if j.entries[i].notice {
			notices++
		}
	}
	return len(j.entries), notices
}

// Filter selects entries. Its zero values select all.
type Filter struct {
	Method    string
	Path      Pattern
	Status    *int
	ClientID  string
	GrantType string
	Username  string
	Fault     string
	Notice    bool
	Since     int64 // later ones only
}

func (f *Filter) selects(e *entry) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return e.n > f.Since && is(f.Method, e.method) && f.Path.Matches(e.path) && (f.Status == nil || *f.Status == e.status) &&
		is(f.ClientID, e.client) && is(f.GrantType, e.grant) && is(f.Username, e.user) && is(f.Fault, e.fault) && (e.notice || !f.Notice)
}

// Find returns up to limit of the selected entries as JSON, the oldest first, and how
// many there are. dropped counts the entries that the bounds removed.
func (j *Journal) Find(f Filter, limit int) (found []json.RawMessage, count int, dropped int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range j.entries {
		e := &j.entries[i]
		if !f.selects(e) {
			continue
		}
		if count++; count <= limit {
			found = append(found, e.json())
		}
	}
	return found, count, j.dropped
}

// newEntry encodes an exchange. Its texts are copies: those of a request are parts of
// larger ones.
func newEntry(x Exchange, m *masker) entry {
	body := readBody(&x, m)
	query := readForm(x.RawQuery)
	for _, p := range query {
		if isSecretName(p.name) {
			m.learn(p.value)
		}
	}
	for _, header := range x.Header["Authorization"] {
		m.learnHeader(header)
	}
	method, path, client, user, grant := m.text(x.Method), m.text(x.Path), m.text(x.ClientID), m.text(x.Username), m.named("grant_type", x.GrantType)

	b := make([]byte, 0, 1<<10)
	b = appendText(b, `,"id":`, x.RequestID)
	b = append(x.At.UTC().AppendFormat(append(b, `,"at":"`...), "2006-01-02T15:04:05.000Z"), '"')
	b = appendText(b, `,"method":`, method)
	b = appendText(b, `,"path":`, path)
	b = appendLists(append(b, `,"query":`...), m, query)
	b = appendLists(append(b, `,"headers":`...), m, readHeader(&x))
	if body != nil {
		b = append(append(b, `,"body":`...), m.shown(body)...)
	}
	if x.BodyCut {
		b = append(b, `,"body_cut":true`...)
	}
	b = strconv.AppendInt(append(b, `,"status":`...), int64(x.Status), 10)
	for _, member := range []struct{ name, value string }{
		{`,"error":`, m.text(x.Error)}, {`,"client_id":`, client}, {`,"username":`, user}, {`,"account":`, x.Account},
		{`,"grant_type":`, grant}, {`,"fault":`, x.Fault},
	} {
		if member.value != "" {
			b = appendText(b, member.name, member.value)
		}
	}
	if len(x.Notices) > 0 {
		b = append(b, `,"notices":`...)
		b = appendTexts(b, x.Notices)
	}
	b = append(b, `,"duration_ms":`...)
	b = strconv.AppendFloat(b, float64(x.Took.Microseconds())/1000, 'f', -1, 64)
	return entry{
		text: slices.Clip(append(b, '}')), method: strings.Clone(method), path: strings.Clone(path), client: strings.Clone(client),
		grant: strings.Clone(grant), user: strings.Clone(user), fault: x.Fault, status: x.Status, notice: len(x.Notices) > 0,
	}
}

// pair is a parameter or header field.
type pair struct{ name, value string }

// readForm reads a query or a form. What cannot be decoded stands as it came.
func readForm(text string) (pairs []pair) {
	if text == "" {
		return nil
	}
	for item := range strings.SplitSeq(text, "&") {
		if item == "" {
			continue
		}
		name, value, _ := strings.Cut(item, "=")
		pairs = append(pairs, pair{unescaped(name), unescaped(value)})
	}
	return pairs
}

func unescaped(text string) string {
	if strings.IndexByte(text, '%') < 0 && strings.IndexByte(text, '+') < 0 {
		return text
	}
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

func readHeader(x *Exchange) (pairs []pair) {
	pairs = make([]pair, 0, len(x.Header)+1)
	pairs = append(pairs, pair{"Host", x.Host})
	for name, values := range x.Header {
		for _, value := range values {
			pairs = append(pairs, pair{name, value})
		}
	}
	return pairs
}

// appendLists appends pairs as an object of lists, sorted by name.
func appendLists(b []byte, m *masker, pairs []pair) []byte {
	slices.SortStableFunc(pairs, func(p, q pair) int { return strings.Compare(p.name, q.name) })
	b = append(b, '{')
	for i := 0; i < len(pairs); {
		if i > 0 {
			b = append(b, ',')
		}
		name := pairs[i].name
		b = append(appendText(b, "", m.text(name)), ':', '[')
		for first := i; i < len(pairs) && pairs[i].name == name; i++ {
			if i > first {
				b = append(b, ',')
			}
			b = appendText(b, "", m.named(name, pairs[i].value))
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendTexts(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, "", text)
	}
	return append(b, ']')
}

// appendText appends a member's start and a JSON text.
func appendText(b []byte, start, text string) []byte {
	b = append(b, start...)
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text) // of a text: no error
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// readBody returns the body as pairs, as a JSON value or as a text, nil if there is
// none, and lets the masker learn its secrets.
func readBody(x *Exchange, m *masker) any {
	if len(x.Body) == 0 {
		return nil
	}
	contentType := ""
	if values := x.Header["Content-Type"]; len(values) > 0 {
		contentType = values[0]
	}
	mediaType, params, _ := mime.ParseMediaType(contentType)
	switch {
	case mediaType == "application/x-www-form-urlencoded":
		return learnPairs(m, readForm(string(x.Body)))
	case mediaType == "multipart/form-data" && !x.BodyCut:
		if pairs := readMultipart(x.Body, params["boundary"]); pairs != nil {
			return learnPairs(m, pairs)
		}
	case !x.BodyCut && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")):
		var value any
		d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(x.Body, []byte("\ufeff"))))
		d.UseNumber()
		if d.Decode(&value) == nil && !d.More() && value != nil {
			learnValue(m, "", value)
			return value
		}
	}
	return string(x.Body)
}

func learnPairs(m *masker, pairs []pair) []pair {
	for _, p := range pairs {
		if isSecretName(p.name) {
			m.learn(p.value)
		}
	}
	return pairs
}

func readMultipart(body []byte, boundary string) (pairs []pair) {
	if boundary == "" {
		return nil
	}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if err != nil {
			return pairs
		}
		var value bytes.Buffer
		if _, err := value.ReadFrom(part); err != nil {
			return nil
		}
		pairs = append(pairs, pair{part.FormName(), value.String()})
	}
}

func learnValue(m *masker, name string, value any) {
	switch value := value.(type) {
	case string:
		if isSecretName(name) {
			m.learn(value)
		}
	case []any:
		for _, item := range value {
			learnValue(m, name, item)
		}
	case map[string]any:
		for member, item := range value {
			learnValue(m, secretOf(name, member), item)
		}
	}
}

// secretOf returns the name that decides about a member: all members of a secret are
// secret.
func secretOf(object, member string) string {
	if isSecretName(object) {
		return object
	}
	return member
}

// shown returns a body as JSON.
func (m *masker) shown(body any) []byte {
	switch body := body.(type) {
	case string:
		if !utf8.ValidString(body) {
			body = strings.ToValidUTF8(body, "\ufffd")
		}
		return appendText(nil, "", m.text(body))
	case []pair:
		form := map[string]any{}
		for _, p := range body {
			name, value := m.text(p.name), m.named(p.name, p.value)
			switch before := form[name].(type) {
			case nil:
				form[name] = value
			case string:
				form[name] = []string{before, value}
			case []string:
				form[name] = append(before, value)
			}
		}
		return marshal(form)
	}
	return marshal(m.value("", body))
}

// value masks a JSON value.
func (m *masker) value(name string, value any) any {
	switch value := value.(type) {
	case string:
		return m.named(name, value)
	case json.Number:
		if m != nil && isSecretName(name) {
			return Mask(value.String())
		}
	case []any:
		for i, item := range value {
			value[i] = m.value(name, item)
		}
	case map[string]any:
		masked := make(map[string]any, len(value))
		for member, item := range value {
			masked[m.text(member)] = m.value(secretOf(name, member), item)
		}
		return masked
	}
	return value
}

// marshal sorts the members of objects, so that equal requests have equal entries.
func marshal(value any) []byte {
	b, err := snapshot.EncodeJSON(value)
	if err != nil {
		return []byte("null")
	}
	return b
}
