package desk

import (
	"net/http"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/views"
)

// The parameters of the explorer that the API does not have: a customer's name or e-mail
// address, and the id of the customer after which the search continues.
const (
	customerParam      = "customer"
	customerAfterParam = "customer-after"
	customerSizeMax    = 256 // bytes
)

// customerSearch is a search for customers by name or e-mail address.
type customerSearch struct {
	text, after string // as typed; without a text there is no such search
	found       eventlog.FoundCustomers
}

// findsNobody reports whether no event can match, since no customer does.
func (c customerSearch) findsNobody() bool { return c.text != "" && len(c.found.Customers) == 0 }

// parsePageSearch reads the query of the explorer's pages. Its customers become the
// resources of the query, as many as the API takes.
func (v *visit) parsePageSearch() (e eventSearch, refused *web.Problem, err error) {
	pairs, refused := web.ParseAPIQuery(v.r.URL.RawQuery)
	if refused != nil {
		return e, refused, nil
	}
	var c customerSearch
	var given, goesOn bool
	if c.text, given, pairs, refused = web.TakePair(pairs, customerParam); refused != nil {
		return e, refused, nil
	}
	if c.after, goesOn, pairs, refused = web.TakePair(pairs, customerAfterParam); refused != nil {
		return e, refused, nil
	}
	if e, refused = v.searchOf(pairs); !given || refused != nil {
		return e, refused, nil
	}
	e.customer = c
	switch {
	case len(eventlog.NameWords(c.text)) == 0 || len(c.text) > customerSizeMax:
		return e, web.InvalidParameter(customerParam, "must be a name or an e-mail address, at most %d bytes.", customerSizeMax), nil
	case goesOn && !eventlog.IsID(c.after):
		return e, web.InvalidParameter(customerAfterParam, "must be the id of a customer."), nil
	case len(e.query.Resources) > 0:
		return e, web.NewProblem(http.StatusBadRequest, "conflicting_parameters", "`customer` and `resource` cannot be combined.").On(customerParam), nil
	case v.knownAccount(e.account) != nil:
		return e, nil, nil // the page says so
	}
	e.customer.found, err = v.s.site.Store.Events.FindCustomers(v.ctx, e.account, c.text, c.after, api.FilterResourcesMax)
	if err != nil || e.customer.findsNobody() {
		return e, nil, err
	}
	var ids []string
	for _, found := range e.customer.found.Customers {
		ids = append(ids, found.ID)
	}
	e.pairs = append(e.pairs, web.QueryPair{Name: "resource", Value: strings.Join(ids, ",")})
	e.query, refused = api.ParseEventQuery(e.pairs)
	return e, refused, nil
}

// shownCustomers are the customers that the search found.
func (e eventSearch) shownCustomers() *views.FoundCustomers {
	if e.customer.text == "" {
		return nil
	}
	shown := &views.FoundCustomers{Text: e.customer.text, ReadMax: eventlog.CustomersScanned}
	for _, c := range e.customer.found.Customers {
		shown.Customers = append(shown.Customers, views.FoundCustomer{ID: c.ID, Name: c.Name, Email: c.Email, URL: e.ofResource(c.ID).address(deskEventsPath)})
	}
	if e.customer.found.More {
		further := e
		further.customer.after = e.customer.found.Last
		shown.FurtherURL = further.address(deskEventsPath)
	}
	return shown
}

// whatIsMeant tells what a person typed into the field for a resource, an event or a
// customer: the parameter for it, and its value.
func (v *visit) whatIsMeant(account, typed string) (name, value string, err error) {
	ids := strings.FieldsFunc(typed, func(c rune) bool { return c == ',' || c == ' ' })
	name, value = "resource", strings.Join(ids, ",")
	if value == "" || v.knownAccount(account) != nil || len(ids) > api.FilterResourcesMax {
		return name, value, nil
	}
	for _, id := range ids {
		if !eventlog.IsID(id) {
			return customerParam, typed, nil
		}
	}
	found, _, err := v.listShown(account, eventlog.Filter{Resources: ids, To: eventlog.CreatedAtMax, Limit: 1})
	if err != nil || len(found) > 0 {
		return name, value, err
	}
	return customerParam, typed, nil
}
