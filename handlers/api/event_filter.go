package api

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
)

const (
	EventsLimitDefault = 50
	EventsLimitMax     = 1000 // about 1 MB of typical events
	FilterTypesMax     = 50
	FilterResourcesMax = 20
)

// EventParams are the parameters of an event list, for suggestions.
var EventParams = []string{
	"type", "type[]", "resource", "resource[]", "createdAt", "createdAt[between]", "createdAt[gt]", "createdAt[gte]",
	"createdAt[lt]", "createdAt[lte]", "limit", "order", "after", "before", "wait",
}

// eventParamsMeant maps the names in other APIs, in lower case, to our parameters; for
// times see [timeParam].
var eventParamsMeant = map[string]string{
	"types[]": "type[]", "event_type": "type", "eventtype": "type", "event_types[]": "type[]", "kind": "type",
	"resources[]": "resource[]", "resource_id": "resource", "resourceid": "resource", "object": "resource", "object_id": "resource", "customer": "resource",
	"starting_after": "after", "cursor": "after", "page": "after", "page_token": "after", "offset": "after", "skip": "after", "next": "after", "nextcursor": "after",
	"ending_before": "before", "previous": "before", "previouscursor": "before",
	"per_page": "limit", "page_size": "limit", "pagesize": "limit", "size": "limit", "count": "limit", "first": "limit", "max": "limit",
	"sort": "order", "sort_by": "order", "order_by": "order", "direction": "order", "reverse": "order",
}

// EventQuery is a parsed request for events.
type EventQuery struct {
	eventlog.Filter
	// pairs are the parameters except cursors, as sent, for links.
	pairs       []web.QueryPair
	CursorSent  bool
	feed        bool          // of all accounts
	wait        time.Duration // how long to wait for the first event
	waited      bool
	Cursor      string // the parameter and its value
	cursorParam string // after, before or Last-Event-ID
	// moved means that waiting has moved the cursor. The page is then not the one that
	// was asked for: history may have been imported behind it.
	moved bool
}

// ParseEventQuery reads the parameters of a list or stream of events.
func ParseEventQuery(pairs []web.QueryPair) (EventQuery, *web.Problem) {
	q := EventQuery{Filter: eventlog.Filter{Limit: EventsLimitDefault}}
	single := map[string]string{}
	var types, resources []web.QueryPair
	for _, pair := range pairs {
		switch {
		case IsListParam("type", pair.Name):
			types = append(types, pair)
		case IsListParam("resource", pair.Name):
			resources = append(resources, pair)
		case !slices.Contains(EventParams, pair.Name):
			return EventQuery{}, unknownEventParam(pair.Name)
		default:
			if _, again := single[pair.Name]; again {
				return EventQuery{}, web.DuplicateParameter(pair.Name)
			}
			single[pair.Name] = pair.Value
		}
		if pair.Name != "after" && pair.Name != "before" {
			q.pairs = append(q.pairs, pair)
		}
	}
	refused := cmp.Or( // the first error; wait depends on those before it
		q.parseTypes(types),
		q.parseResources(resources),
		q.parseCreatedAt(single),
		q.parsePage(single),
		q.parseCursors(single),
		q.parseWait(single),
	)
	if refused != nil {
		return EventQuery{}, refused
	}
	return q, nil
}

const listIndexMax = 65535 // as PHP and qs write lists: type[0]=…&type[1]=…

// IsListParam accepts type, type[] and type[7].
func IsListParam(list, name string) bool {
	rest, ok := strings.CutPrefix(name, list)
	if !ok || rest == "" || rest == "[]" {
		return ok
	}
	digits, opened := strings.CutPrefix(rest, "[")
	digits, closed := strings.CutSuffix(digits, "]")
	n, err := strconv.ParseUint(digits, 10, 32)
	return opened && closed && err == nil && n <= listIndexMax && len(digits) <= 5
}

// parseTypes returns the union of all types.
func (q *EventQuery) parseTypes(pairs []web.QueryPair) (refused *web.Problem) {
	q.Types, refused = parseList(pairs, checkType, FilterTypesMax, "types; leave it out and filter the events yourself, or send several requests.")
	return refused
}

func (q *EventQuery) parseResources(pairs []web.QueryPair) (refused *web.Problem) {
	q.Resources, refused = parseList(pairs, checkResource, FilterResourcesMax, "resources; send several requests.")
	return refused
}

// parseList reads a list in all its spellings, without duplicates.
func parseList(pairs []web.QueryPair, check func(param, value, name string) *web.Problem, most int, tooMany string) ([]string, *web.Problem) {
	var names []string
	for _, pair := range pairs {
		for name := range strings.SplitSeq(pair.Value, ",") {
			if refused := check(pair.Name, pair.Value, name); refused != nil {
				return nil, refused
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			if len(names) > most {
				return nil, web.InvalidParameter(pair.Name, "names more than %d %s", most, tooMany)
			}
		}
	}
	return names, nil
}

// checkResource refuses invalid resource ids.
func checkResource(param, value, id string) *web.Problem {
	if eventlog.IsID(id) {
		return nil
	}
	if refused := checkListed(param, value, id, "id", "a resource such as cus_4tn8k2w1", "resource[]=cus_4tn8k2w1&resource[]=cus_7hq3d9m2"); refused != nil {
		return refused
	}
	return web.InvalidParameter(param, "must be the id of a resource: 1 to 64 characters of A-Z, a-z, 0-9, _ and -.")
}

// checkListed explains common mistakes in lists.
func checkListed(param, value, name, noun, example, list string) *web.Problem {
	switch {
	case value == "":
		return web.InvalidParameter(param, "is empty; leave it out, or name %s.", example)
	case name == "":
		return web.InvalidParameter(param, "has an empty item before or after a comma.")
	case strings.HasPrefix(value, "['") || strings.HasPrefix(value, `["`):
		return web.InvalidParameter(param, "is a stringified list; repeat the parameter, as in %s.", list)
	case value == "[object Object]":
		return web.InvalidParameter(param, "is a stringified object; send the %s.", noun)
	}
	return nil
}

// checkType refuses what is neither a type nor a pattern.
func checkType(param, value, typ string) *web.Problem {
	if eventlog.IsEventType(typ) || eventlog.IsTypePattern(typ) {
		return nil
	}
	if refused := checkListed(param, value, typ, "name of a type", "a type such as customer.updated", "type[]=customer.created&type[]=customer.updated"); refused != nil {
		return refused
	}
	switch {
	case typ == "*.*":
		return web.InvalidParameter(param, "must not be *.*; to match every type, send * or leave it out.")
	case strings.Contains(typ, "*"):
		return web.InvalidParameter(param, "has a wildcard inside a name; a wildcard replaces a whole name: customer.*, *.created or *.")
	case eventlog.IsEventType(strings.ToLower(typ)):
		return web.InvalidParameter(param, "is case-sensitive; did you mean %s?", strings.ToLower(typ))
	}
	return web.InvalidParameter(param, "must be a type of the form <resource_kind>.<action>, such as customer.updated.")
}

func (q *EventQuery) parsePage(single map[string]string) *web.Problem {
	if text, given := single["limit"]; given {
		n, refused := ParseLimit(text)
		if refused != nil {
			return refused
		}
		q.Limit = n
	}
	switch order, given := single["order"]; {
	case !given, order == "desc":
	case order == "asc":
		q.Ascending = true
	default:
		return web.InvalidParameter("order", "must be asc, oldest first, or desc, newest first.")
	}
	return nil
}

// ParseLimit parses the page size. It is never clamped: a caller that gets fewer
// rows than requested would take the page for the last one.
func ParseLimit(text string) (int, *web.Problem) {
	n, err := strconv.Atoi(text)
	if err != nil || !web.IsDigits(text) || n < 1 || n > EventsLimitMax {
		return 0, web.InvalidParameter("limit", "must be a whole number from 1 to %d.", EventsLimitMax)
	}
	return n, nil
}

func (q *EventQuery) parseCursors(single map[string]string) (refused *web.Problem) {
	after, hasAfter := single["after"]
	before, hasBefore := single["before"]
	q.CursorSent = hasAfter || hasBefore
	q.Cursor = "after=" + after + " before=" + before
	switch {
	case hasAfter && hasBefore:
		return web.NewProblem(http.StatusBadRequest, "conflicting_parameters", "`after` and `before` cannot be combined.").On("before")
	case hasAfter && after == "latest":
		q.After = eventlog.LatestCursor()
		return nil
	case hasAfter:
		q.cursorParam = "after"
		q.After, refused = q.parseCursor("after", after)
	case before == "latest":
		refused = invalidCursor("before", "must be the id of an event")
	case hasBefore:
		q.cursorParam = "before"
		q.Before, refused = q.parseCursor("before", before)
	}
	return refused
}

// parseWait parses how long to wait for the first event. New events come at the end,
// so the order must be ascending.
func (q *EventQuery) parseWait(single map[string]string) *web.Problem {
	text, given := single["wait"]
	if !given {
		return nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || !web.IsDigits(text) || seconds > waitMax {
		return web.InvalidParameter("wait", "must be a whole number of seconds from 0 to %d.", waitMax)
	}
	switch {
	case !q.Ascending:
		return web.InvalidParameter("wait", "requires order=asc: new events come at the end.")
	case !q.Before.IsZero():
		return web.NewProblem(http.StatusBadRequest, "conflicting_parameters", "`wait` and `before` cannot be combined: no new events come before a position.").On("wait")
	}
	q.wait = time.Duration(seconds) * time.Second
	return nil
}

func invalidCursor(param, reason string) *web.Problem {
	return web.NewProblem(http.StatusBadRequest, "invalid_cursor", "%s %s.", param, reason).On(param)
}

// Identity distinguishes this query from all others: for entity tags, and for kept pages. It
// has every field of the filter but those that the server sets for itself, Fits and Row.
func (q *EventQuery) Identity(owner, as string) string {
	b := make([]byte, 0, 256) // without fmt, which allocates for each value
	b = append(append(append(append(b, owner...), ' '), as...), ' ')
	b = append(strconv.AppendInt(b, q.From, 10), ' ')
	b = append(strconv.AppendInt(b, q.To, 10), ' ')
	b = append(strconv.AppendInt(b, int64(q.Limit), 10), ' ')
	b = append(strconv.AppendBool(b, q.Ascending), ' ')
	b = append(append(b, q.Cursor...), '\n')
	for _, names := range [][]string{q.Types, q.Resources} {
		if len(names) > 1 {
			names = slices.Sorted(slices.Values(names))
		}
		b = append(b, '[')
		for i, name := range names {
			if i > 0 {
				b = append(b, ' ')
			}
			b = append(b, name...)
		}
		b = append(b, "]\n"...)
	}
	return string(b)
}

// Link writes the query with a cursor, for a Link header.
func (q *EventQuery) Link(path, cursor, position string) string {
	var pairs []string
	for _, pair := range q.pairs {
		if pair.Name == "wait" && cursor == "before" {
			continue // wait and before cannot be combined
		}
		pairs = append(pairs, Escaped(pair.Name)+"="+Escaped(pair.Value))
	}
	if cursor != "" {
		pairs = append(pairs, cursor+"="+position)
	}
	if len(pairs) == 0 {
		return "<" + path + ">"
	}
	return "<" + path + "?" + strings.Join(pairs, "&") + ">"
}

// Escaped escapes what is not allowed in a query (RFC 3986 §3.4) or would end a link
// or a parameter.
func Escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
