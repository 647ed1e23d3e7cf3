package desk

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/admin"
	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// eventSearch is the query of the explorer.
type eventSearch struct {
	account  string
	own      string          // the operator's account, which addresses need not name
	customer customerSearch  // whose events alone are listed
	from, to string          // as typed
	asked    []web.QueryPair // as the API takes them, without from and to
	pairs    []web.QueryPair // as the API takes them
	query    api.EventQuery
}

// parseEventSearch reads the query of the explorer, without a customer.
func (v *visit) parseEventSearch() (e eventSearch, refused *web.Problem) {
	pairs, refused := web.ParseAPIQuery(v.r.URL.RawQuery)
	if refused != nil {
		return e, refused
	}
	return v.searchOf(pairs)
}

func (v *visit) searchOf(pairs []web.QueryPair) (e eventSearch, refused *web.Problem) {
	account, given, pairs, refused := web.TakePair(pairs, "account")
	if refused != nil {
		return e, refused
	}
	e.own = v.session.User.Account
	if e.account = account; !given {
		e.account = e.own
	}
	var hasFrom, hasTo bool
	if e.from, hasFrom, pairs, refused = web.TakePair(pairs, "from"); refused != nil {
		return e, refused
	}
	if e.to, hasTo, pairs, refused = web.TakePair(pairs, "to"); refused != nil {
		return e, refused
	}
	e.asked, e.pairs = pairs, slices.Clone(pairs)
	if hasFrom || hasTo {
		for _, pair := range pairs {
			if strings.HasPrefix(pair.Name, "createdAt") {
				return e, web.NewProblem(http.StatusBadRequest, "conflicting_parameters", "`from` and `to` cannot be combined with `%s`.", web.ShownName(pair.Name)).On("from")
			}
		}
	}
	now := v.now
	if hasFrom {
		from, _, ok := admin.PeopleTime(e.from, now)
		if !ok {
			return e, web.InvalidParameter("from", "is not a time: %s.", admin.PeopleTimes)
		}
		e.pairs = append(e.pairs, web.QueryPair{Name: "createdAt[gte]", Value: strconv.FormatInt(from.Unix(), 10)})
	}
	if hasTo {
		_, to, ok := admin.PeopleTime(e.to, now)
		if !ok {
			return e, web.InvalidParameter("to", "is not a time: %s.", admin.PeopleTimes)
		}
		e.pairs = append(e.pairs, web.QueryPair{Name: "createdAt[lte]", Value: strconv.FormatInt(to.Unix(), 10)})
	}
	e.query, refused = api.ParseEventQuery(e.pairs)
	return e, refused
}

// address is the explorer's, with the search and a further parameter.
func (e eventSearch) address(path string, more ...string) string {
	var pairs []string
	if e.account != e.own {
		pairs = append(pairs, "account="+api.Escaped(e.account))
	}
	for _, p := range e.asked {
		if p.Name != "after" && p.Name != "before" {
			pairs = append(pairs, api.Escaped(p.Name)+"="+api.Escaped(p.Value))
		}
	}
	for _, p := range []web.QueryPair{
		{Name: customerParam, Value: e.customer.text}, {Name: customerAfterParam, Value: e.customer.after}, {Name: "from", Value: e.from}, {Name: "to", Value: e.to},
	} {
		if p.Value != "" {
			pairs = append(pairs, p.Name+"="+api.Escaped(p.Value))
		}
	}
	for i := 0; i < len(more); i += 2 {
		pairs = append(pairs, more[i]+"="+api.Escaped(more[i+1]))
	}
	if len(pairs) == 0 {
		return path
	}
	return path + "?" + strings.Join(pairs, "&")
}

func (e eventSearch) value(list string) string {
	var values []string
	for _, p := range e.asked {
		if api.IsListParam(list, p.Name) {
			values = append(values, p.Value)
		}
	}
	return strings.Join(values, ",")
}

func (e eventSearch) single(name string) string {
	for _, p := range e.asked {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// rawAddress is that of the same page as the API sends it.
func (e eventSearch) rawAddress() string {
	pairs := []string{"account=" + api.Escaped(e.account)}
	for _, p := range e.pairs {
		pairs = append(pairs, api.Escaped(p.Name)+"="+api.Escaped(p.Value))
	}
	return "/desk/event-list?" + strings.Join(pairs, "&")
}
