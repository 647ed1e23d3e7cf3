package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// described is an api whose every answer is held to the API description.
type described struct {
	*apiHouse
	t    testing.TB
	told *Described
}

func (d *described) ask(method, target, token, body string, headers ...string) answer {
	d.t.Helper()
	w := d.request(method, target, token, strings.NewReader(body), headers...)
	path, _, _ := strings.Cut(target, "?")
	d.told.Check(d.t, method, path, w.Code, w.Result().Header, w.Body.Bytes())
	return w
}

func (d *described) read(target, token string, headers ...string) answer {
	d.t.Helper()
	return d.ask(http.MethodGet, target, token, "", headers...)
}

// TestAPIAnswersAreDescribed asks for everything that the API can say, the golden
// examples among it. In the end every status that is described has been seen.
//
// Promise (§2.3): every refusal has one shape, names the parameter and has its own status
func TestAPIAnswersAreDescribed(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	a, token := newGoldenAPI(t)
	d := &described{apiHouse: a, t: t, told: NewDescribed(t, api.OpenAPI(a.server.Site.PublicURL(), "test"))}
	stranger := a.token(t, "stranger", "acct_other", store.ScopeUnstated)
	powerless := []string{
		a.token(t, "reader", goldenAccount, store.ScopeEventsRead|store.ScopeResourcesRead), a.token(t, "writer", goldenAccount, store.ScopeResourcesWrite),
	}
	describedEvents(d, token, stranger)
	describedResources(d, token)
	describedWebhooks(d, token, append(powerless, "", "x"))
	describedRetry(d, stranger)
	for _, target := range []string{"/api/events", "/api/events/" + goldenFirst, "/api/event-types", "/api/resources/customer", "/api/resources/customer/cus_4tn8k2w1"} {
		for _, token := range append(powerless, "", "x") {
			d.read(target, token)
		}
		tag := d.read(target, token).Header().Get("ETag")
		if tag != "" { // a list of resources has none
			d.read(target, token, "If-None-Match", tag)
		}
		d.read(target, token, "Accept", "application/xml")
		d.read(target+"?nonsense=1", token)
		d.read(target+"?%zz", token)
		d.ask(http.MethodHead, target, token, "")
		d.ask(http.MethodOptions, target, "", "")
		d.ask(http.MethodPost, target, token, "")
		d.ask("PROPFIND", target, token, "")
		d.read(target+"?"+strings.Repeat("a", web.QueryStringSizeMax+1), token)
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Host = "evil.example"
		w := httptest.NewRecorder()
		a.server.Public().ServeHTTP(w, r)
		d.told.Check(t, r.Method, target, w.Code, w.Result().Header, w.Body.Bytes())
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, token := range append(powerless, "", "x") {
			d.ask(method, "/api/resources/plan/p9", token, `{}`, "Content-Type", "application/json")
		}
	}
	for _, target := range []string{"/healthz", "/readyz", web.OpenAPIPath, web.MetadataPath} {
		tag := d.read(target, "").Header().Get("ETag")
		d.read(target, "", "If-None-Match", tag)
	}
	a.Faults.Break(record.ErrUnavailable)
	d.read("/readyz", "")
	d.read("/api/events", token)
	a.Faults.Repair()
	describedLive(d, token)
	describedExpiry(d)
	for _, unseen := range d.told.Unseen("/api/") {
		t.Errorf("openapi: %s is described, and no answer showed it", unseen)
	}
}

// describedLive is what is said to those who wait for events: an event that is
// there, a stream, and that too many wait already.
func describedLive(d *described, token string) {
	d.t.Helper()
	const path, live = "/api/events", "text/event-stream"
	d.read(path+"?order=asc&wait=55&after="+goldenFirst, token)
	d.read(path+"?order=desc&wait=1", token)
	d.read(path+"?order=desc", token, "Accept", live)

	ctx, leave := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path+"?after="+goldenFirst, nil)
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", live)
	w := &leaver{ResponseRecorder: httptest.NewRecorder(), leave: leave}
	d.server.Public().ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != web.EventStreamType {
		d.t.Errorf("openapi: a stream is %d %s", w.Code, w.Body)
	}
	d.told.Check(d.t, r.Method, path, w.Code, w.Result().Header, w.Body.Bytes())

	for {
		watch, err := d.Events.WatchEvents(context.Background(), goldenAccount)
		if errors.Is(err, eventlog.ErrTooManyWatches) {
			break
		}
		if err != nil {
			d.t.Fatal(err)
		}
		defer watch.Close()
	}
	d.read(path+"?order=asc&after=latest&wait=55", token)
	d.read(path, token, "Accept", live)
}

// leaver is a reader of a stream who leaves when it begins.
type leaver struct {
	*httptest.ResponseRecorder
	leave func()
}

func (l *leaver) WriteHeader(status int) {
	l.ResponseRecorder.WriteHeader(status)
	l.leave()
}

// describedExpiry is what is said of events that are not kept any more.
func describedExpiry(d *described) {
	d.t.Helper()
	ctx := context.Background()
	d.Clock.Advance(48 * time.Hour)
	token := d.token(d.t, "latecomer", goldenAccount, store.ScopeUnstated)
	d.ask(http.MethodPut, "/api/resources/plan/young", token, `{}`, "Content-Type", "application/json")
	if err := d.Events.SetRetention(ctx, eventlog.RetentionMin); err != nil {
		d.t.Fatal(err)
	}
	if removed, err := d.TrimEvents(ctx); err != nil || removed == 0 {
		d.t.Fatalf("TrimEvents = %d, %v", removed, err)
	}
	d.read("/api/events?order=asc&after="+goldenFirst, token)
	d.read("/api/events/"+goldenFirst, token)
	const url = `{"url":"https://hooks.larkspurtea.example/late`
	e := endpointIn(d.t, d.ask(http.MethodPost, api.WebhooksPath, token, url+`"}`, "Content-Type", "application/json"), http.StatusCreated)
	d.ask(http.MethodPost, api.WebhooksPath, token, url+`2","from":"`+goldenFirst+`"}`, "Content-Type", "application/json")
	d.ask(http.MethodPost, api.WebhooksPath+"/"+e.ID+"/enable", token, `{"from":"`+goldenFirst+`"}`, "Content-Type", "application/json")
}

// describedEvents are the golden examples, and the other ways to ask for events.
func describedEvents(d *described, token, stranger string) {
	d.t.Helper()
	d.read("/api/events/"+goldenSecond, token)
	d.read("/api/events/"+goldenSecond, token, "If-None-Match", `"`+goldenSecond+`"`)
	d.read("/api/events/"+goldenFirst, stranger)
	d.read("/api/events/%00", token)
	for _, query := range []string{
		"type[]=customer.created&type[]=customer.updated&limit=1",
		"type%5B0%5D=customer.created&type%5B1%5D=customer.updated&limit=1&after=" + goldenSecond,
		"createdAt[between]=1773070200..1773153000&order=asc", "type=account.autoupdate&createdAt[gte]=1773100000",
		"createdAt[gte]=1773070200000", "createdAt[between]=1773153000..1773070200", "types[]=customer.created",
		"order=asc&after=latest", "before=" + goldenThird, "type=customer.update", "type=customer.*", "resource=cus_4tn8k2w1",
		"limit=0", "after=x.y", "after=" + goldenFirst + "&before=" + goldenThird, "createdAt[gt]=1&createdAt[gt]=2", "createdAt=1&createdAt[lt]=2", "access_token=x",
	} {
		d.read("/api/events?"+query, token)
	}
	d.read("/api/events?limit=2", token, "Accept", "application/x-ndjson")
	if tag := d.read("/api/events?limit=1", token).Header().Get("ETag"); tag != "" {
		d.read("/api/events?limit=1", token, "If-None-Match", tag)
	}
}

// describedResources is the life of two resources, and what is refused in it.
func describedResources(d *described, token string) {
	d.t.Helper()
	const plain, patch = "application/json", web.MergePatchType
	steps := []struct {
		method, target, body, contentType string
		headers                           []string
		wantSchema                        string // that the answer must have
	}{
		{"PUT", "customer/c1", `{"displayName":"Larkspur"}`, plain, nil, "CustomerSnapshot"},
		{"PUT", "customer/c1", `{"displayName":"Larkspur"}`, plain, nil, "CustomerSnapshot"},
		{"PATCH", "customer/c1", `{"city":"Dunmere"}`, patch, nil, "CustomerSnapshot"},
		{"PATCH", "customer/c1?action=merged", `{}`, patch, nil, "CustomerSnapshot"},
		{"PUT", "account/a1", `{"last4":"4418","expiry":"0326","isDefault":"1","metadata":{"x":"1"}}`, plain, nil, "AccountSnapshot"},
		{"PUT", "transaction/t1", `{"amount":148.5,"tax":"1.50","transactionDate":"2026-03-09"}`, plain, nil, "TransactionSnapshot"},
		{"PUT", "invoice/i1", `{"total":"10","lines":[{"amount":1}],"dueDate":""}`, plain, nil, "InvoiceSnapshot"},
		{"PUT", "plan/p1", `{"anything":[{"at":{"all":1}}]}`, plain, nil, api.AnyKindSchema},
		{"PUT", "batch/b1", `{}`, plain, nil, "BatchSnapshot"},
		{"PUT", "customer/c1", `{"displayNam":"x"}`, plain, nil, ""},
		{"PUT", "customer/c1", `{"zip":5091}`, plain, nil, ""},
		{"PATCH", "customer/c1", `{"metadata":{"x":[1]}}`, patch, nil, ""},
		{"PUT", "customer/c1", `{`, plain, nil, ""},
		{"PUT", "customer/c1", `{"id":"c2"}`, plain, nil, ""},
		{"PUT", "customer/c1", `{}`, patch, nil, ""},
		{"PUT", "customer/c1?action=updated", `{}`, plain, nil, ""},
		{"PUT", "customer/c1?action=a&action=b", `{}`, plain, nil, ""},
		{"PUT", "customer/none?action=merged", `{}`, plain, nil, ""},
		{"PUT", "plan/p1", `{"cvv":"123"}`, plain, nil, ""},
		{"PUT", "plan/p1", `{"a":"` + strings.Repeat("x", 24<<10) + `"}`, plain, nil, ""},
		{"PUT", "plan/p1", `{}`, plain, []string{"If-None-Match", "*"}, ""},
		{"PATCH", "customer/c1", `{}`, plain, nil, ""},
		{"PATCH", "customer/c1", `[]`, "application/json-patch+json", nil, ""},
		{"PATCH", "customer/c1", `{"colour":"red"}`, patch, nil, ""},
		{"PATCH", "customer/c1", `{"id":null}`, patch, nil, ""},
		{"PATCH", "customer/c1", strings.Repeat(" ", 65<<10), patch, nil, ""},
		{"PATCH", "customer/c1", `{}`, patch, []string{"If-Match", `"x"`}, ""},
		{"PATCH", "customer/none", `{}`, patch, nil, ""},
		{"DELETE", "plan/p1", "", "", []string{"If-Match", `"x"`}, ""},
		{"DELETE", "plan/p1?action=x", "", "", nil, ""},
		{"DELETE", "plan/p1", "", "", nil, ""},
		{"DELETE", "plan/p1", "", "", nil, ""},
		{"GET", "customer/c1", "", "", nil, "CustomerSnapshot"},
		{"GET", "plan/p1", "", "", nil, ""},
		{"GET", "customer?limit=1", "", "", nil, ""},
		{"GET", "customer?limit=0", "", "", nil, ""},
		{"GET", "customer?after=a.b", "", "", nil, ""},
		{"GET", "No-Kind", "", "", nil, ""},
	}
	for _, step := range steps {
		d.Clock.Advance(time.Second)
		headers := step.headers
		if step.contentType != "" {
			headers = append(headers, "Content-Type", step.contentType)
		}
		w := d.ask(step.method, "/api/resources/"+step.target, token, step.body, headers...)
		if step.wantSchema != "" {
			d.told.Validate(d.t, []string{"components", "schemas", step.wantSchema}, w.Body.Bytes())
		}
	}
	tag := d.read("/api/resources/customer/c1", token).Header().Get("ETag")
	d.read("/api/resources/customer/c1", token, "If-None-Match", tag)
}

// describedRetry asks for more events than a retry may have.
func describedRetry(d *described, token string) {
	d.t.Helper()
	var lines strings.Builder
	for i := range webhook.RetriedMax + 1 {
		fmt.Fprintf(&lines, `{"type":"plan.created","resource":"p%d","createdAt":%d,"eventData":{"object":{"id":"p%d","object":"plan"}}}`+"\n", i, 1_773_000_000+i, i)
	}
	d.importLines(d.t, "acct_other", lines.String())
	e := endpointIn(d.t, d.ask(http.MethodPost, api.WebhooksPath, token, `{"url":"https://hooks.larkspurtea.example/x"}`, "Content-Type", "application/json"), http.StatusCreated)
	w := d.ask(http.MethodPost, api.WebhooksPath+"/"+e.ID+"/retry", token, fmt.Sprintf(`{"from":"0","to":"%d"}`, d.Now().Unix()), "Content-Type", "application/json")
	if description, _ := w.fault(d.t, http.StatusConflict, "conflict", "")["error_description"].(string); !strings.Contains(description, "enable with `from`") {
		d.t.Errorf("the refusal does not name enable with from: %s", description)
	}
}

// describedWebhooks is the life of a webhook endpoint, and what is refused in it.
func describedWebhooks(d *described, token string, powerless []string) {
	d.t.Helper()
	sender := &recordingSender{err: webhook.ErrSecretLost}
	d.server.API.Webhooks = sender
	const plain = "application/json"
	ask := func(method, path, body string, headers ...string) answer {
		d.t.Helper()
		if body != "" && len(headers) == 0 {
			headers = []string{"Content-Type", plain}
		}
		return d.ask(method, api.WebhooksPath+path, token, body, headers...)
	}
	const valid = `{"url":"https://hooks.larkspurtea.example/tollhouse","types":["plan.*"],"order":"strict","description":"x","from":"start"}`
	e := endpointIn(d.t, ask("POST", "", valid), http.StatusCreated)
	never := "wep_" + strings.Repeat("0", 26)
	ask("POST", "", valid)
	ask("POST", "", `{}`)
	ask("POST", "", valid, "Content-Type", "text/plain")
	ask("POST", "", strings.Repeat(" ", 65<<10))
	ask("GET", "", "")
	ask("GET", "", "", "Accept", "application/xml")
	ask("GET", "?limit=0", "")
	ask("PATCH", "/"+e.ID, `{"url":"https://hooks.larkspurtea.example/2"}`)
	ask("PATCH", "/"+e.ID, `{}`, "Content-Type", web.MergePatchType, "If-Match", `"99"`)
	ask("PATCH", "/"+e.ID, `{"ordre":1}`)
	ask("POST", "", valid)
	ask("PATCH", "/"+e.ID, `{"url":"https://hooks.larkspurtea.example/tollhouse"}`) // another's
	for range 3 {
		ask("POST", "/"+e.ID+"/rotate-secret", "")
	}
	ask("POST", "/"+e.ID+"/test", "").fault(d.t, http.StatusConflict, "conflict", "")
	sender.err = nil
	for range api.WebhookTestsMax {
		ask("POST", "/"+e.ID+"/test", "")
	}
	ask("POST", "/"+e.ID+"/retry", `{"state":"dead"}`)
	ask("POST", "/"+e.ID+"/retry", fmt.Sprintf(`{"from":"0","to":"%d","types":["*"]}`, d.Now().Unix()))
	ask("POST", "/"+e.ID+"/skip", "")
	BlockWebhook(d.t, d.Store, e.ID)
	ask("GET", "/"+e.ID, "")
	ask("GET", "/"+e.ID+"/deliveries", "")
	ask("POST", "/"+e.ID+"/skip", "")
	ask("GET", "/"+e.ID+"/deliveries?state=skipped", "")
	ask("GET", "/"+e.ID+"/deliveries", "", "Accept", "application/xml")
	for _, path := range []string{"/enable", "/disable", "/skip", "/rotate-secret", "/test", "/retry"} {
		ask("POST", "/"+e.ID+path, `{"nonsense":1}`)
		ask("POST", "/"+e.ID+path, `{}`, "Content-Type", "text/plain")
		ask("POST", "/"+e.ID+path, strings.Repeat(" ", 65<<10))
		ask("POST", "/"+never+path, `{"state":"dead"}`)
		ask("POST", "/"+never+path, "")
		for _, t := range powerless {
			d.ask("POST", api.WebhooksPath+"/"+e.ID+path, t, "")
		}
	}
	must.Get(d.Webhooks.Disable(context.Background(), webhook.System, e.ID))(d.t)
	ask("POST", "/"+e.ID+"/enable", "").fault(d.t, http.StatusConflict, "conflict", "")
	_, _, err := d.Webhooks.Enable(context.Background(), webhook.System, e.ID, webhook.From{})
	must.Do(d.t, err)
	ask("PATCH", "/"+e.ID, strings.Repeat(" ", 65<<10))
	ask("PATCH", "/"+e.ID, `{}`, "Content-Type", "text/plain")
	ask("PATCH", "/"+never, `{}`)
	ask("DELETE", "/"+e.ID+"?x=1", "")
	for _, t := range powerless {
		d.ask("POST", api.WebhooksPath, t, valid, "Content-Type", plain)
		d.ask("PATCH", api.WebhooksPath+"/"+e.ID, t, `{}`, "Content-Type", plain)
		d.ask("DELETE", api.WebhooksPath+"/"+e.ID, t, "")
		for _, path := range []string{"", "/" + e.ID, "/" + e.ID + "/deliveries"} {
			d.read(api.WebhooksPath+path, t)
		}
	}
	for _, path := range []string{"/" + e.ID, "/" + e.ID + "/deliveries"} {
		ask("GET", path+"?nonsense=1", "")
		ask("GET", path, "", "Accept", "application/xml")
	}
	ask("GET", "/"+never, "")
	ask("GET", "/"+never+"/deliveries", "")
	ask("POST", "/"+e.ID+"/disable", "")
	ask("GET", "/"+e.ID, "")
	ask("POST", "/"+e.ID+"/enable", "")
	ask("DELETE", "/"+e.ID, "")
	ask("DELETE", "/"+e.ID, "")
}
