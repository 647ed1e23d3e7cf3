package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"tollhouse/handlers/api"
	"tollhouse/handlers/dev"
	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
	"tollhouse/static"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/views"
)

const (
	sampleItemsMax  = 2       // of each list
	docsPageSizeMax = 1 << 20 // bytes of the page that an id is taken from
)

// docsFacts are what the examples are filled in with.
type docsFacts struct {
	base     string
	values   map[string]string // by the name of a form's field
	token    string
	event    string
	resource string
}

// docsFacts returns variables of a shell, and in dev what works there.
func (s *Server) docsFacts(r *http.Request) (docsFacts, error) {
	f := docsFacts{base: s.site.IssuerOf(r), token: "$TOKEN", values: map[string]string{
		"client_id": "$CLIENT_ID", "client_secret": "$CLIENT_SECRET", "username": "$USERNAME", "password": "$PASSWORD", "token": "$TOKEN",
	}, event: "evt_01ksme0y6g000gytsbprejgt7r", resource: "cus_88k2af01nm98"}
	if s.site.Demo == nil || !s.site.Testers {
		return f, nil
	}
	f.base = s.site.ProgramsURL(r)
	for name, value := range map[string]string{"client_id": s.site.Demo.ClientID, "client_secret": s.site.Demo.ClientSecret, "username": s.site.Demo.Username, "password": s.site.Demo.Password} {
		if value != "" {
			f.values[name] = value
		}
	}
	token, err := s.docsToken.of(r.Context(), s)
	if err != nil {
		return f, err
	}
	if token != "" {
		f.token, f.values["token"] = token, token
	}
	ctx := r.Context()
	events, err := s.site.Store.Events.ListEvents(ctx, s.site.Demo.Account, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1}, nil)
	if err != nil {
		return f, err
	}
	f.event = firstID(events.Data, f.event)
	f.resource, err = s.aCustomer(ctx, f.resource)
	return f, err
}

// aCustomer returns the id of a customer of dev's account, or usual.
func (s *Server) aCustomer(ctx context.Context, usual string) (string, error) {
	customers, err := s.site.Store.Events.ListResources(ctx, s.site.Demo.Account, "customer", "", 1, eventlog.UpTo(docsPageSizeMax), nil)
	if err != nil {
		return "", err
	}
	return firstID(customers.Data, usual), nil
}

// firstID returns the id of the first item of a page, or usual.
func firstID(page []byte, usual string) string {
	var first struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(bytes.NewReader(page)).Decode(&first); err != nil || first.ID == "" {
		return usual
	}
	return first.ID
}

// references keeps the reference that was asked for last, as descriptions keeps its
// document.
type references struct {
	mu   sync.Mutex
	from *api.Description
	last *reference
}

func (k *references) of(d *api.Description) *reference {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.from != d {
		k.from, k.last = d, readReference(d.Document)
	}
	return k.last
}

// docsToken is dev's token of the demo user for the examples.
type docsToken struct {
	mu   sync.Mutex
	text string
}

// of returns a live token, a new one if the last is not. It is a fixture: tokens of grants
// stay the same whoever reads the reference. Without a demo user it returns "".
func (t *docsToken) of(ctx context.Context, s *Server) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	token, err := s.site.Store.ParseToken(ctx, secret.AccessToken, t.text)
	if err == nil {
		_, err = s.site.Store.FindPrincipal(ctx, token)
	}
	if !errors.Is(err, record.ErrNotFound) {
		return t.text, err
	}
	issued, err := dev.Token{}.IssueBy(ctx, s.site.Store, s.site.Demo, web.By(ctx))
	if _, refused := errors.AsType[*web.Problem](err); refused { // a seed without a demo user or client, or disabled
		return "", nil
	}
	t.text = oauth.AnswerOf(issued).AccessToken
	return t.text, err
}

// curl returns the operation as a command, which the page breaks into lines.
func (o referenceOperation) curl(f docsFacts) (line, note string) {
	path, query := o.path, ""
	for name, value := range map[string]string{"{kind}": "customer", "{name}": strings.TrimPrefix(static.Path("style.css"), static.Prefix)} {
		path = strings.ReplaceAll(path, name, value)
	}
	id := f.resource
	switch {
	case strings.HasPrefix(path, "/api/events/"):
		id = f.event
	case o.method != http.MethodGet:
		id = "cus_larkspur"
	}
	path = strings.ReplaceAll(path, "{id}", id)
	path = strings.ReplaceAll(path, "{tag}", "events")
	switch o.shown.ID {
	case "listEvents", "listResources":
		query = "?limit=2"
	case "authorize":
		return "curl -sS -i -G " + f.authorization(), "Open the address in a browser. An unregistered redirect_uri is refused."
	}
	if posted, ok := pageForms[o.shown.ID]; ok {
		return posted.curl(f, path), posted.note
	}
	line = "curl -sS " + web.CurlWord(f.base+path+query)
	if o.method != http.MethodGet && o.method != http.MethodPost {
		line += " -X " + o.method
	}
	if o.needsToken {
		line += " -H " + web.CurlWord("Authorization: Bearer "+f.token)
	}
	if o.request.Kind() == snapshot.Object {
		line += " -H 'Content-Type: " + o.requestType + "' -d " + web.CurlWord(string(o.request.Append(nil)))
	}
	if o.form.Kind() == snapshot.Object {
		for _, field := range o.form.Members() {
			value, isOurs := f.values[field.Name]
			if !isOurs || o.shown.ID == "revokeToken" && field.Name == "token" {
				value = field.Value.Text() // the token of the other examples stays alive
			}
			line += web.CurlField(field.Name, value)
		}
	}
	return line, ""
}

// authorization is a request for authorization of the demo client.
func (f docsFacts) authorization() string {
	return web.CurlWord(f.base+"/oauth/v2/auth") + " -d response_type=code" + web.CurlField("client_id", f.values["client_id"]) + web.CurlField("redirect_uri", "http://127.0.0.1/callback")
}

// pageForm is a form of a page, which a browser sends with a hidden value of that page.
type pageForm struct {
	page   string // "" for the consent screen
	hidden string
	fields []string // name=value; a name of docsFacts.values has its value from there
	note   string
}

const (
	ofThisBrowser = "The file cookies stands for a browser: a form is refused without the hidden value of its page."
	afterSignIn   = "Run the example of POST /login first: the file cookies stands for the browser that it signed in."
)

var pageForms = map[string]pageForm{
	"login":          {"/login", "form_token", []string{"username", "password"}, ofThisBrowser},
	"setNewPassword": {oauth.NewPasswordPath, "form_token", []string{"username", "code=$CODE", "new_password=$NEW_PASSWORD", "repeat_password=$NEW_PASSWORD"}, ofThisBrowser + " Set CODE and NEW_PASSWORD; otherwise it answers with the form and the reason."},
	"decide":         {"", "ticket", []string{"decision=allow"}, afterSignIn},
	"logout":         {"/", "form_token", nil, afterSignIn},
	"revokeClient":   {"/account", "form_token", []string{"client_id"}, afterSignIn},
	"turnOffWebhook": {"/account", "form_token", []string{"webhook_id=wep_00000000000000000000000000"}, afterSignIn + " Replace the id with that of an endpoint on the page."},
	"signOutOthers":  {"/account", "form_token", nil, afterSignIn},
	"changePassword": {"/account", "form_token", []string{"current_password", "new_password=$NEW_PASSWORD", "repeat_password=$NEW_PASSWORD"}, afterSignIn + " Set NEW_PASSWORD; otherwise it answers with the form and the reason."},
}

// curl opens the page for its hidden value, and posts the form to path.
func (p pageForm) curl(f docsFacts, path string) string {
	const jar = " -b cookies -c cookies"
	opener := "curl -sS " + web.CurlWord(f.base+p.page) + jar
	switch p.page {
	case "":
		opener = "curl -sS -G " + f.authorization() + jar
	case "/login": // which somebody signed in does not see
		opener = strings.Replace(opener, " -b cookies", "", 1)
	}
	line := "hidden=$(" + opener + " | grep -o 'name=\"" + p.hidden + "\" value=\"[^\"]*' | tail -n 1 | cut -d '\"' -f 4)\n" +
		"curl -sS -i " + web.CurlWord(f.base+path) + jar + " -d " + web.CurlWord(p.hidden+"=$hidden")
	for _, field := range p.fields {
		name, value, isGiven := strings.Cut(field, "=")
		if !isGiven {
			value = f.values[strings.TrimPrefix(name, "current_")]
		}
		line += web.CurlField(name, value)
	}
	return line
}

func (s *Server) docsProps(r *http.Request) (views.DocsProps, *reference, docsFacts, error) {
	f, err := s.docsFacts(r)
	ref := s.references.of(s.api.Described.Of(s.site.IssuerOf(r), s.site.Version, s.site.Store.Events.Rules()))
	page := s.site.Page(r)
	page.SignedIn = s.site.IsSignedIn(r)
	return views.DocsProps{Page: page, BaseURL: f.base, StartURL: web.DocsPath, DocumentURL: web.OpenAPIPath}, ref, f, err
}

// docs is GET /docs.
func (s *Server) docs(w http.ResponseWriter, r *http.Request) error {
	props, ref, f, err := s.docsProps(r)
	if err != nil {
		return err
	}
	var lines = map[string]string{}
	for _, tag := range ref.tags {
		shown := tag.shown
		for _, o := range tag.operations {
			shown.Operations = append(shown.Operations, o.shown)
			lines[o.shown.ID], _ = o.curl(f)
		}
		props.Tags = append(props.Tags, shown)
	}
	props.TokenCommand, props.RequestCommand, props.IntrospectCommand = lines["issueToken"], lines["listEvents"], lines["introspectToken"]
	web.PageHeaders(w, web.Nowhere)
	web.AllowScript(w, false)
	s.site.Render(w, r, http.StatusOK, views.Docs(props))
	return nil
}

// docsOfTag is GET /docs/:tag.
func (s *Server) docsOfTag(w http.ResponseWriter, r *http.Request) error {
	props, ref, f, err := s.docsProps(r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(ref.tags, func(t referenceTag) bool { return t.slug == web.PathParam(r, "tag") })
	if i < 0 {
		return web.NotFound(w, r)
	}
	tag := ref.tags[i]
	shown := tag.shown
	for _, o := range tag.operations {
		drawn := o.shown
		drawn.Curl, drawn.CurlNote = o.curl(f)
		shown.Operations = append(shown.Operations, drawn)
	}
	for _, other := range ref.tags {
		props.Tags = append(props.Tags, other.shown)
	}
	props.Tags[i] = shown
	web.PageHeaders(w, web.Nowhere)
	web.AllowScript(w, false)
	s.site.Render(w, r, http.StatusOK, views.DocsOfTag(props, shown))
	return nil
}
