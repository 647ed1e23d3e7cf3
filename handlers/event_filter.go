package handlers

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/store/eventlog"
)

const (
	eventsLimitDefault = 50
	eventsLimitMax     = 1000 // about 1 MB of typical events
	filterTypesMax     = 50
	filterResourcesMax = 20
)

// eventParams are the parameters of an event list, for suggestions.
var eventParams = []string{
	"type", "type[]", "resource", "resource[]", "createdAt", "createdAt[between]", "createdAt[gt]", "createdAt[gte]",
	"createdAt[lt]", "createdAt[lte]", "limit", "order", "after", "before", "wait",
}

// eventParamsMeant maps the names in other APIs, in lower case, to our parameters.
var eventParamsMeant = map[string]string{
	"types[]": "type[]", "event_type": "type", "eventtype": "type", "event_types[]": "type[]", "kind": "type",
	"resources[]": "resource[]", "resource_id": "resource", "resourceid": "resource", "object": "resource", "object_id": "resource", "customer": "resource",
	"created": "createdAt", "created_at": "createdAt", "date": "createdAt", "time": "createdAt", "timestamp": "createdAt",
	"created[gt]": "createdAt[gt]", "created[gte]": "createdAt[gte]", "created[lt]": "createdAt[lt]", "created[lte]": "createdAt[lte]",
	"created_at[gt]": "createdAt[gt]", "created_at[gte]": "createdAt[gte]", "created_at[lt]": "createdAt[lt]", "created_at[lte]": "createdAt[lte]",
	"createdat.gt": "createdAt[gt]", "createdat.gte": "createdAt[gte]", "createdat.lt": "createdAt[lt]", "createdat.lte": "createdAt[lte]", "createdat.between": "createdAt[between]",
	"createdat[after]": "createdAt[gte]", "createdat[before]": "createdAt[lte]",
	"createdat[strictly_after]": "createdAt[gt]", "createdat[strictly_before]": "createdAt[lt]",
	"createdat[from]": "createdAt[gte]", "createdat[to]": "createdAt[lte]", "createdat[since]": "createdAt[gte]", "createdat[until]": "createdAt[lte]",
	"createdat[min]": "createdAt[gte]", "createdat[max]": "createdAt[lte]", "createdat[eq]": "createdAt", "createdat[]": "createdAt",
	"since": "createdAt[gte]", "from": "createdAt[gte]", "start": "createdAt[gte]", "until": "createdAt[lte]", "to": "createdAt[lte]", "end": "createdAt[lte]",
	"starting_after": "after", "cursor": "after", "page": "after", "page_token": "after", "offset": "after", "skip": "after", "next": "after", "nextcursor": "after",
	"ending_before": "before", "previous": "before", "previouscursor": "before",
	"per_page": "limit", "page_size": "limit", "pagesize": "limit", "size": "limit", "count": "limit", "first": "limit", "max": "limit",
	"sort": "order", "sort_by": "order", "order_by": "order", "direction": "order", "reverse": "order",
}

// eventQuery is a parsed request for events.
type eventQuery struct {
	eventlog.Filter
	// pairs are the parameters except cursors, as sent, for links.
	pairs      []queryPair
	cursorSent bool
	wait       time.Duration // how long to wait for the first event
	cursor     string        // the parameter and its value
	// moved means that waiting has moved the cursor. The page is then not the one that
	// was asked for: history may have been imported behind it.
	moved bool
}

func parseEventQuery(pairs []queryPair) (eventQuery, *problem) {
	q := eventQuery{Filter: eventlog.Filter{Limit: eventsLimitDefault}}
	single := map[string]string{}
	var types, resources []queryPair
	for _, pair := range pairs {
		switch {
		case isListParam("type", pair.name):
			types = append(types, pair)
		case isListParam("resource", pair.name):
			resources = append(resources, pair)
		case !slices.Contains(eventParams, pair.name):
			return eventQuery{}, unknownParameter(pair.name, eventParamsMeant, eventParams)
		default:
			if _, again := single[pair.name]; again {
				return eventQuery{}, duplicateParameter(pair.name)
			}
			single[pair.name] = pair.value
		}
		if pair.name != "after" && pair.name != "before" {
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
		return eventQuery{}, refused
	}
	return q, nil
}

const listIndexMax = 65535 // as PHP and qs write lists: type[0]=…&type[1]=…

// isListParam accepts type, type[] and type[7].
func isListParam(list, name string) bool {
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
func (q *eventQuery) parseTypes(pairs []queryPair) (refused *problem) {
	q.Types, refused = parseList(pairs, checkType, filterTypesMax, "types; leave it out and filter the events yourself, or send several requests.")
	return refused
}

func (q *eventQuery) parseResources(pairs []queryPair) (refused *problem) {
	q.Resources, refused = parseList(pairs, checkResource, filterResourcesMax, "resources; send several requests.")
	return refused
}

// parseList reads a list in all its spellings, without duplicates.
func parseList(pairs []queryPair, check func(param, value, name string) *problem, most int, tooMany string) ([]string, *problem) {
	var names []string
	for _, pair := range pairs {
		for name := range strings.SplitSeq(pair.value, ",") {
			if refused := check(pair.name, pair.value, name); refused != nil {
				return nil, refused
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			if len(names) > most {
				return nil, invalidParameter(pair.name, "names more than %d %s", most, tooMany)
			}
		}
	}
	return names, nil
}

// checkResource refuses invalid resource ids.
func checkResource(param, value, id string) *problem {
	if eventlog.IsID(id) {
		return nil
	}
	if refused := checkListed(param, value, id, "id", "a resource such as cus_4tn8k2w1", "resource[]=cus_4tn8k2w1&resource[]=cus_7hq3d9m2"); refused != nil {
		return refused
	}
	return invalidParameter(param, "must be the id of a resource: 1 to 64 characters of A-Z, a-z, 0-9, _ and -.")
}

// checkListed explains common mistakes in lists.
func checkListed(param, value, name, noun, example, list string) *problem {
	switch {
	case value == "":
		return invalidParameter(param, "is empty; leave it out, or name %s.", example)
	case name == "":
		return invalidParameter(param, "has an empty item before or after a comma.")
	case strings.HasPrefix(value, "['") || strings.HasPrefix(value, `["`):
		return invalidParameter(param, "is a stringified list; repeat the parameter, as in %s.", list)
	case value == "[object Object]":
		return invalidParameter(param, "is a stringified object; send the %s.", noun)
	}
	return nil
}

// checkType refuses what is neither a type nor a pattern.
func checkType(param, value, typ string) *problem {
	if eventlog.IsEventType(typ) || eventlog.IsTypePattern(typ) {
		return nil
	}
	if refused := checkListed(param, value, typ, "name of a type", "a type such as customer.updated", "type[]=customer.created&type[]=customer.updated"); refused != nil {
		return refused
	}
	switch {
	case typ == "*.*":
		return invalidParameter(param, "must not be *.*; to match every type, send * or leave it out.")
	case strings.Contains(typ, "*"):
		return invalidParameter(param, "has a wildcard inside a name; a wildcard replaces a whole name: customer.*, *.created or *.")
	case eventlog.IsEventType(strings.ToLower(typ)):
		return invalidParameter(param, "is case-sensitive; did you mean %s?", strings.ToLower(typ))
	}
	return invalidParameter(param, "must be a type of the form <resource_kind>.<action>, such as customer.updated.")
}

func (q *eventQuery) parsePage(single map[string]string) *problem {
	if text, given := single["limit"]; given {
		n, refused := parseLimit(text)
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
		return invalidParameter("order", "must be asc, oldest first, or desc, newest first.")
	}
	return nil
}

// parseLimit parses the page size. It is never clamped: a caller that gets fewer
// rows than requested would take the page for the last one.
func parseLimit(text string) (int, *problem) {
	n, err := strconv.Atoi(text)
	if err != nil || !isDigits(text) || n < 1 || n > eventsLimitMax {
		return 0, invalidParameter("limit", "must be a whole number from 1 to %d.", eventsLimitMax)
	}
	return n, nil
}

func (q *eventQuery) parseCursors(single map[string]string) *problem {
	after, hasAfter := single["after"]
	before, hasBefore := single["before"]
	q.cursorSent = hasAfter || hasBefore
	q.cursor = "after=" + after + " before=" + before
	switch {
	case hasAfter && hasBefore:
		return newProblem(http.StatusBadRequest, "conflicting_parameters", "after and before cannot be combined.").on("before")
	case hasAfter && after == "latest":
		q.After = eventlog.LatestCursor()
		return nil
	case hasAfter:
		c, ok := eventlog.ParseCursor(after)
		if !ok {
			return invalidCursor("after", "must be the id of an event, or latest")
		}
		q.After = c
	case hasBefore:
		c, ok := eventlog.ParseCursor(before)
		if !ok || before == "latest" {
			return invalidCursor("before", "must be the id of an event")
		}
		q.Before = c
	}
	return nil
}

// parseWait parses how long to wait for the first event. New events come at the end,
// so the order must be ascending.
func (q *eventQuery) parseWait(single map[string]string) *problem {
	text, given := single["wait"]
	if !given {
		return nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || !isDigits(text) || seconds > waitMax {
		return invalidParameter("wait", "must be a whole number of seconds from 0 to %d.", waitMax)
	}
	switch {
	case !q.Ascending:
		return invalidParameter("wait", "requires order=asc: new events come at the end.")
	case !q.Before.IsZero():
		return newProblem(http.StatusBadRequest, "conflicting_parameters", "wait and before cannot be combined: no new events come before a position.").on("wait")
	}
	q.wait = time.Duration(seconds) * time.Second
	return nil
}

func invalidCursor(param, reason string) *problem {
	return newProblem(http.StatusBadRequest, "invalid_cursor", "%s %s.", param, reason).on(param)
}

// digest distinguishes this query from others, for entity tags.
func (q *eventQuery) digest(owner, as string) uint32 {
	h := fnv.New32a()
	fmt.Fprintln(h, owner, as, q.From, q.To, q.Limit, q.Ascending, q.cursor)
	for _, names := range [][]string{q.Types, q.Resources} {
		fmt.Fprintln(h, slices.Sorted(slices.Values(names)))
	}
	return h.Sum32()
}

// link writes the query with a cursor, for a Link header.
func (q *eventQuery) link(path, cursor, position string) string {
	var pairs []string
	for _, pair := range q.pairs {
		if pair.name == "wait" && cursor == "before" {
			continue // wait and before cannot be combined
		}
		pairs = append(pairs, escaped(pair.name)+"="+escaped(pair.value))
	}
	if cursor != "" {
		pairs = append(pairs, cursor+"="+position)
	}
	if len(pairs) == 0 {
		return "<" + path + ">"
	}
	return "<" + path + "?" + strings.Join(pairs, "&") + ">"
}

// escaped escapes what is not allowed in a query (RFC 3986 §3.4) or would end a link
// or a parameter.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
