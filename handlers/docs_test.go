package handlers_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"tollhouse/handlers"
	"tollhouse/handlers/dev"
	"tollhouse/store/storetest/must"
)

const docsSizeMax = 60 << 10 // bytes of each page

var docsTags = []string{"oauth", "events", "resources", "webhooks", "deliveries", "service", "pages", "factor"}

// docsNodes returns the elements of a page that have the attribute, by its value.
func docsNodes(t testing.TB, page answer, name string) (values []string, nodes map[string]*html.Node) {
	t.Helper()
	nodes = map[string]*html.Node{}
	for n := range parsePage(t, page).Descendants() {
		if i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name }); i >= 0 {
			values, nodes[n.Attr[i].Val] = append(values, n.Attr[i].Val), n
		}
	}
	return values, nodes
}

// docsCurls returns the examples of a page by operation.
func docsCurls(t testing.TB, page answer) map[string]string {
	t.Helper()
	_, sections := docsNodes(t, page, "data-operation")
	found := map[string]string{}
	for name, section := range sections {
		for n := range section.Descendants() {
			if n.Data == "pre" && slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "data-curl" }) {
				found[name] = n.FirstChild.FirstChild.Data
			}
		}
	}
	return found
}

func TestDocs(t *testing.T) {
	h := parallelHouse(t)
	var described []string
	document := handlers.NewDescribed(t, []byte(h.get(t, "/openapi.json").body))
	for name := range document.Names() {
		described = append(described, name)
	}
	slices.Sort(described)
	t.Run("the_reference_has_every_operation_of_the_document", func(t *testing.T) {
		start, _ := docsNodes(t, h.get(t, "/docs"), "data-operation")
		var all []string
		for _, tag := range docsTags {
			page := h.get(t, "/docs/"+tag)
			names, sections := docsNodes(t, page, "data-operation")
			all = append(all, names...)
			curls := docsCurls(t, page)
			for name, section := range sections {
				if attribute(section, "id") == "" || !strings.Contains(curls[name], "curl ") {
					t.Errorf("%s has the id %q and the example %q", name, attribute(section, "id"), curls[name])
				}
			}
			if len(page.body) > docsSizeMax {
				t.Errorf("/docs/%s has %d bytes, want at most %d", tag, len(page.body), docsSizeMax)
			}
			if !strings.Contains(page.body, `href="/openapi.json"`) {
				t.Errorf("/docs/%s does not link to the document", tag)
			}
		}
		slices.Sort(start)
		slices.Sort(all)
		if !slices.Equal(start, described) || !slices.Equal(all, described) {
			t.Errorf("the start has\n%v\nthe pages\n%v\nand the document\n%v", start, all, described)
		}
	})
	t.Run("the_document_leads_to_the_reference", func(t *testing.T) {
		if document := h.get(t, "/openapi.json").body; !strings.Contains(document, `"url":"`+h.issuer+`/docs"`) {
			t.Errorf("the document does not lead to the reference: %.200s", document)
		}
	})
	t.Run("parameters_and_statuses_are_those_of_the_document", func(t *testing.T) {
		page := h.get(t, "/docs/events")
		parameters, _ := docsNodes(t, page, "data-param")
		statuses, _ := docsNodes(t, page, "data-status")
		if !slices.Contains(parameters, "createdAt[between]") || !slices.Contains(statuses, "410") || !strings.Contains(page.body, "conflicting_parameters") {
			t.Errorf("parameters %v, statuses %v", parameters, statuses)
		}
	})
	t.Run("only_dev_fills_in_a_token", func(t *testing.T) {
		for _, path := range []string{"/docs", "/docs/events"} {
			if page := h.get(t, path).body; strings.Contains(page, "tollat_") && path != "/docs" || !strings.Contains(page, "Bearer $TOKEN") {
				t.Errorf("%s has a token, or no $TOKEN", path)
			}
		}
	})
	t.Run("each_page_leads_to_all_others_and_has_buttons_to_copy", func(t *testing.T) {
		for _, path := range []string{"/docs", "/docs/events"} {
			page := h.get(t, path)
			for _, tag := range docsTags {
				if !strings.Contains(page.body, `href="/docs/`+tag+`"`) {
					t.Errorf("%s does not lead to %s", path, tag)
				}
			}
			policy := directivesOf(page.Header.Get("Content-Security-Policy"))
			if policy["script-src"] != "'self'" || policy["connect-src"] != "" || !strings.Contains(page.body, "data-copy") {
				t.Errorf("%s has the policy %v, or no button to copy", path, policy)
			}
		}
		if page := h.get(t, "/docs/events").body; !strings.Contains(page, `href="#listEvents"`) || strings.Contains(page, `href="#issueToken"`) {
			t.Error("the navigation lacks the operations of the page, or has those of another")
		}
	})
	t.Run("a_stranger_can_sign_in_and_a_user_gets_to_the_account", func(t *testing.T) {
		for _, path := range []string{"/docs", "/docs/events"} {
			if page := h.get(t, path); linkOn(t, page, "Sign in") != "/login" || linkOn(t, page, "Your account") != "" {
				t.Errorf("%s: a stranger has no link to sign in, or one to an account", path)
			}
			if page := h.signedIn(t, h.user).get(t, path); linkOn(t, page, "Sign in") != "" || linkOn(t, page, "Your account") != "/account" {
				t.Errorf("%s: a user has a link to sign in, or none to the account", path)
			}
		}
	})
	t.Run("examples_of_forms_break_before_each_flag_and_pipe", func(t *testing.T) {
		const want = "hidden=$(curl -sS https://pay.example/login \\\n  -c cookies \\\n  | grep -o 'name=\"form_token\" value=\"[^\"]*' \\\n  | tail -n 1 \\\n  | cut -d '\"' -f 4)\n" +
			"curl -sS -i https://pay.example/login \\\n  -b cookies \\\n  -c cookies \\\n  -d \"form_token=$hidden\" \\\n  --data-urlencode \"username=$USERNAME\" \\\n  --data-urlencode \"password=$PASSWORD\""
		if got := docsCurls(t, h.get(t, "/docs/pages"))["POST /login"]; got != want {
			t.Errorf("the example is\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("a_tag_of_no_operation_is_unknown", func(t *testing.T) {
		if a := h.get(t, "/docs/desk"); a.StatusCode != http.StatusNotFound {
			t.Errorf("GET /docs/desk = %d", a.StatusCode)
		}
	})
	t.Run("dev_mints_one_token_until_it_expires", func(t *testing.T) {
		h := newMakingHouse(t)
		token := func() string {
			return regexp.MustCompile(`Bearer (tollat_\w+)`).FindString(h.get(t, "/docs/events").body)
		}
		first := token()
		if first == "" || token() != first {
			t.Fatalf("the first look shows %q, and the second another", first)
		}
		later := h.dev.Clock.Now().Add(48 * time.Hour)
		_ = must.Get(h.dev.Clock.Move(dev.Move{Set: later}))(t)
		if second := token(); second == "" || second == first {
			t.Errorf("after two days the page shows %q, before %q", second, first)
		}
	})
}
