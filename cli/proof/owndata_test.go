package proof

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// ownData sends changes of resources and looks at what they recorded.
type ownData struct {
	*testing.T
	*client
	access string
}

func newOwnData(t *testing.T, s *server) *ownData {
	t.Helper()
	var c credentials
	decode(t, s.run("client", "create", "--name", "Backend", "--account", "acct_own", "--grant", "client_credentials", "--json"), &c)
	o := &ownData{T: t, client: s.asClient(c)}
	form := "grant_type=client_credentials&client_id=" + c.ID + "&client_secret=" + c.Secret
	a := must.Get(o.send(t.Context(), http.MethodPost, "/oauth/v2/token", form, "Content-Type", "application/x-www-form-urlencoded"))(t)
	var granted tokens
	decode(t, a.body, &granted)
	o.access = granted.Access
	return o
}

// change sends a change and returns its answer, which must have a status.
func (o *ownData) change(method, of, body string, status int) answer {
	o.Helper()
	a := must.Get(o.call(o.Context(), o.access, method, "/api/resources/"+of, body))(o)
	if a.status != status {
		o.Errorf("%s %s %.80s = %d %.300s, want %d", method, of, body, a.status, a.body, status)
	}
	return a
}

// refused sends a change that must be refused at the member param.
func (o *ownData) refused(method, of, body, code, param string) {
	o.Helper()
	a := o.change(method, of, body, http.StatusBadRequest)
	var problem struct{ Error, Param string }
	_ = json.Unmarshal(a.body, &problem)
	if problem.Error != code || problem.Param != param {
		o.Errorf("%s %s %.80s = %s, want %s at %s", method, of, body, a.body, code, param)
	}
}

// holds compares a member of a resource; want is JSON, or "" for none.
func (o *ownData) holds(a answer, member, want string) {
	o.Helper()
	var of map[string]json.RawMessage
	decode(o.T, a.body, &of)
	if got := string(of[member]); got != want {
		o.Errorf("%s is %s, want %s", member, got, want)
	}
}

// previous returns previousAttributes of the newest event.
func (o *ownData) previous() string {
	o.Helper()
	a := must.Get(o.call(o.Context(), o.access, http.MethodGet, "/api/events?limit=1", ""))(o)
	var page struct {
		Data []struct {
			EventData struct {
				PreviousAttributes json.RawMessage `json:"previousAttributes"`
			} `json:"eventData"`
		} `json:"data"`
	}
	decode(o.T, a.body, &page)
	return string(page.Data[0].EventData.PreviousAttributes)
}

// Promise (Platform §7): each of the four kinds has metadata of 50 strings, merged member by
// member, in previousAttributes as it changed, guarded, and never filled in; own kinds take anything
func TestMetadata(t *testing.T) {
	t.Parallel()
	eachSite(t, func(t *testing.T, p site) {
		o := newOwnData(t, p.serve(t))
		for _, kind := range []string{"customer", "account", "transaction", "invoice"} {
			of := kind + "/x_1"
			o.holds(o.change("PUT", of, `{"metadata":{"order":"8812","shop":"north"}}`, http.StatusCreated), "metadata", `{"order":"8812","shop":"north"}`)
			o.holds(o.change("PATCH", of, `{"metadata":{"shop":null,"courier":"bike","order":"8813"}}`, http.StatusOK), "metadata", `{"order":"8813","courier":"bike"}`)
			if got := o.previous(); got != `{"metadata":{"order":"8812","courier":null,"shop":"north"}}` {
				o.Errorf("previousAttributes of %s are %s", kind, got)
			}
			o.holds(o.change("PATCH", of, `{"metadata":{"`+strings.Repeat("é", 40)+`":"`+strings.Repeat("é", 500)+`"}}`, http.StatusOK), "object", `"`+kind+`"`)
			o.refused("PATCH", of, `{"metadata":{"rank":7}}`, "invalid_field", "metadata.rank")
			o.refused("PATCH", of, `{"metadata":{"a":{"b":"c"}}}`, "invalid_field", "metadata.a")
			o.refused("PATCH", of, `{"metadata":{"a":"`+strings.Repeat("x", 501)+`"}}`, "invalid_field", "metadata.a")
			o.refused("PATCH", of, `{"metadata":{"`+strings.Repeat("x", 41)+`":"y"}}`, "invalid_field", "metadata")
			o.refused("PATCH", of, `{"metadata":{"a[0]":"y"}}`, "invalid_field", "metadata")
			o.refused("PATCH", of, `{"metadata":{"\u0085":"y"}}`, "invalid_field", "metadata")
			o.refused("PATCH", of, `{"metadata":"y"}`, "invalid_field", "metadata")
			o.refused("PATCH", of, `{"metadata":{"card":"4242424242424242"}}`, "sensitive_data", "metadata.card")
			o.holds(o.change("PATCH", of, `{"metadata":null}`, http.StatusOK), "metadata", "")
		}
		o.fillUp()
		o.holds(o.change("PUT", "customer/x_2", `{"displayName":"Odile"}`, http.StatusCreated), "metadata", "")
		o.holds(o.change("PUT", "customer/x_1", `{"displayName":"Odile"}`, http.StatusOK), "metadata", "")
		o.change("PUT", "plan/p_1", `{"metadata":{"rank":7,"a[0]":{"b":[null]}}}`, http.StatusCreated)
	})
}

// fillUp adds metadata in two patches, of which the second is one member too many.
func (o *ownData) fillUp() {
	o.Helper()
	members := func(from, to int) string {
		var all []string
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprintf(`"m%d":"%s"`, i, strings.Repeat("x", 300)))
		}
		return `{"metadata":{` + strings.Join(all, ",") + `}}`
	}
	o.change("PATCH", "customer/x_1", members(0, 50), http.StatusOK)
	o.refused("PATCH", "customer/x_1", members(50, 51), "invalid_field", "metadata")
	o.change("PATCH", "customer/x_1", members(0, 1)[:len(members(0, 1))-2]+`,"m1":null,"m50":"y"}}`, http.StatusOK)
	large := strings.ReplaceAll(members(2, 50), strings.Repeat("x", 300), strings.Repeat("x", 500))
	if a := o.change("PATCH", "customer/x_1", large, http.StatusRequestEntityTooLarge); !a.refused(http.StatusRequestEntityTooLarge, "too_large") {
		o.Errorf("metadata of 25,000 bytes = %s, want too_large", a.body)
	}
}

// Promise (Platform §7): with --open-kinds the four kinds take any object, nothing is filled in,
// and a near miss of a field gets a Tollhouse-Notice; without it they are refused
func TestOpenKinds(t *testing.T) {
	t.Parallel()
	eachSite(t, func(t *testing.T, p site) {
		closed := p.serve(t)
		o := newOwnData(t, closed)
		const body = `{"displayNam":"Odile","tier":{"level":2},"metadata":{"rank":7}}`
		o.refused("PUT", "customer/x_1", body, "unknown_field", "displayNam")
		closed.stop()
		o = newOwnData(t, p.serve(t, "--open-kinds"))
		for range 2 { // at either server
			a := o.change("PUT", "customer/x_1?action=seen", body, http.StatusNotFound)
			a = o.change("PUT", "customer/x_1", body, http.StatusCreated)
			if got, want := string(a.body), `{"id":"x_1","object":"customer",`+body[1:]; got != want {
				t.Errorf("the customer is %s, want %s", got, want)
			}
			if got := a.header.Values("Tollhouse-Notice"); len(got) != 1 || got[0] != "displayNam is not a field of kind customer; did you mean displayName?" {
				t.Errorf("Tollhouse-Notice = %q", got)
			}
			a = o.change("PATCH", "customer/x_1", `{"emial":"x"}`, http.StatusOK)
			if got := a.header.Get("Tollhouse-Notice"); !strings.HasSuffix(got, "did you mean email?") {
				t.Errorf("Tollhouse-Notice = %q, want email", got)
			}
			o.refused("PATCH", "customer/x_1", `{"card":"4242424242424242"}`, "sensitive_data", "card")
			o.change("DELETE", "customer/x_1", "", http.StatusNoContent)
		}
	})
}
