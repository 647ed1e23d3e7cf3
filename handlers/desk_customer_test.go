package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// putCustomer sets a customer of an account.
func (h *house) putCustomer(t testing.TB, account, id, object string) {
	t.Helper()
	body := must.Get(snapshot.Parse([]byte(object), snapshot.DepthMax))(t)
	must.Get(h.Events.PutResource(t.Context(), eventlog.ResourceChange{Owner: account, Kind: "customer", ID: id, Source: "test", Location: "api"}, body))(t)
}

// searched types a text into the field for a resource, an event or a customer, and returns
// the page that it leads to.
func (b *browser) searched(t testing.TB, account, text string) answer {
	t.Helper()
	a := b.get(t, "/desk/events?form=1&account="+account+"&type=&resource="+url.QueryEscape(text)+"&order=desc")
	wantStatus(t, a, http.StatusSeeOther)
	return b.get(t, a.Header.Get("Location"))
}

// TestDeskFindsACustomerByNameOrAddress: who knows a customer's name or e-mail address finds
// the customer's events of that account, and the API's request for them.
//
// Promise (Browsers): the desk finds a customer by name or e-mail within an account, within bounds
func TestDeskFindsACustomerByNameOrAddress(t *testing.T) {
	h, b := deskHouse(t)
	h.putCustomer(t, h.account, "cus_1", `{"displayName":"Orlandine Gorsebottle","email":"orlandine@inklenimble.example"}`)
	h.putCustomer(t, h.account, "cus_2", `{"displayName":"Larkspur Tea Room"}`)
	h.putCustomer(t, h.account, "cus_1", `{"displayName":"Orlandine Gorsebottle","email":"orlandine@gorsebottle.example"}`)
	h.putCustomer(t, "acct_other", "cus_9", `{"displayName":"Orlandine Elsewhere"}`)
	token := h.pair(t).AccessToken
	want := h.listed(t, token, "resource=cus_1")
	for _, text := range []string{"Orlandine Gorsebottle", "gorse", "orlandine", "orlandine@gorsebottle.example", "cus_1", " cus_1 , cus_1"} {
		page := b.searched(t, h.account, text)
		if got := rows(t, page, "data-event"); !slices.Equal(got, want) {
			t.Errorf("%q finds %v, want %v", text, got, want)
		}
		if curl := marked(t, page, "data-curl"); !strings.Contains(curl, "resource=cus_1") {
			t.Errorf("%q is in the API %q", text, curl)
		}
	}
	page := b.searched(t, h.account, "orlandine")
	if got := rows(t, page, "data-customer"); !slices.Equal(got, []string{"cus_1"}) || !strings.Contains(page.body, `value="orlandine"`) {
		t.Errorf("the customers are %v: %s", got, words(t, page))
	}
	if event := b.get(t, firstEvent(t, page)); !slices.Equal(rows(t, event, "data-event"), want) {
		t.Errorf("the list of the event has %v, want that of the search, %v", rows(t, event, "data-event"), want)
	}
	if event := b.get(t, "/desk/events?form=1&resource="+want[0]).Header.Get("Location"); !strings.HasPrefix(event, "/desk/events/"+want[0]) {
		t.Errorf("an event's id leads to %s", event)
	}
	for _, text := range []string{"nobody", "inklenimble", "Elsewhere"} {
		page := b.searched(t, h.account, text)
		if got := rows(t, page, "data-event"); len(got) > 0 || !strings.Contains(words(t, page), "No customer has this name or e-mail address.") ||
			strings.Contains(page.body, "data-curl") || strings.Contains(page.body, "event-list") {
			t.Errorf("%q finds %v: %s", text, got, words(t, page))
		}
	}
	if got := rows(t, b.searched(t, "acct_other", "orlandine"), "data-customer"); !slices.Equal(got, []string{"cus_9"}) {
		t.Errorf("in the other account it finds %v", got)
	}
}

// TestDeskSearchesCustomersFurther: a search lists the events of 20 customers, says that there
// are more, and continues with the next.
//
// Promise (Browsers): the desk finds a customer by name or e-mail within an account, within bounds
func TestDeskSearchesCustomersFurther(t *testing.T) {
	h, b := deskHouse(t)
	for i := range 23 {
		h.putCustomer(t, h.account, fmt.Sprintf("cus_%02d", i), `{"displayName":"Larkspur <b>Tea</b> Room"}`)
	}
	page := b.get(t, "/desk/events?customer=tea&type=customer.*")
	if n, e := len(rows(t, page, "data-customer")), len(rows(t, page, "data-event")); n != 20 || e != 20 || !strings.Contains(words(t, page), "There are more.") {
		t.Errorf("the first page has %d customers and %d events: %s", n, e, words(t, page))
	}
	page = b.get(t, linkOn(t, page, "Search further"))
	if n, e := len(rows(t, page, "data-customer")), len(rows(t, page, "data-event")); n != 3 || e != 3 || strings.Contains(words(t, page), "There are more.") {
		t.Errorf("the next page has %d customers and %d events: %s", n, e, words(t, page))
	}
}

// TestDeskRefusesCustomers: a search for a customer without a word, beside a resource, or in
// the API's own list is refused.
func TestDeskRefusesCustomers(t *testing.T) {
	_, b := deskHouse(t)
	for query, want := range map[string]int{
		"customer=": 400, "customer=%20": 400, "customer=" + strings.Repeat("x", 257): 400, "customer=a&customer=b": 400, "customer=a&resource=cus_1": 400,
		"customer=a&customer-after=!": 400, "customer=a&account=unknown": 404, "customer=a&customer-after=cus_1": 200,
	} {
		if a := b.get(t, "/desk/events?"+query); a.StatusCode != want {
			t.Errorf("%.40s = %d, want %d", query, a.StatusCode, want)
		}
	}
	wantStatus(t, b.get(t, "/desk/event-list?customer=a"), http.StatusBadRequest)
}
