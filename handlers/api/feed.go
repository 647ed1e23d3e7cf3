package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
)

// FeedPath is the path of the feed of all accounts.
const FeedPath = "/api/platform/events"

// feedParams are the parameters of the feed, for suggestions.
var feedParams = []string{"type", "type[]", "resource", "resource[]", "after", "limit", "wait"}

// WriteFeed responds with events of all accounts, in the order in which they were committed:
// a page, immediately or after a wait, or a stream. alive checks the caller's access after a
// wait and during a stream.
func (s *Server) WriteFeed(w http.ResponseWriter, r *http.Request, alive func() error) error {
	pairs, refused := web.ParseAPIQuery(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	q, refused := parseFeedQuery(pairs)
	if refused != nil {
		return refused
	}
	as := web.Negotiate(r, web.AsJSON, AsNDJSON, web.AsEventStream)
	switch {
	case as == "":
		return web.NotAcceptable(AsNDJSON, web.AsEventStream)
	case q.After.IsZero() && (as != web.AsEventStream || r.Header.Get(LastEventID) == ""):
		return web.InvalidParameter("after", "is required: give the nextCursor of the page before, start for the oldest event there is, or latest for those to come.")
	case as == web.AsEventStream:
		return s.streamEvents(w, r, eventlog.AllAccounts, &q, alive)
	}
	s.noteCursor(w, &q)
	w.Header()["Tollhouse-Poll-After"] = web.HeaderPollAfter
	if q.waited = q.wait > 0 && r.Method == http.MethodGet; q.waited {
		if err := s.waitForEvents(w, r, eventlog.AllAccounts, &q); err != nil {
			return err
		}
		if err := alive(); err != nil { // the token may have expired while waiting
			return err
		}
	}
	q.moved = true // a page has no tag: purges change it, and no version tells
	return s.WritePage(w, r, eventlog.AllAccounts, s.site.Base()+FeedPath, as, &q, "")
}

// parseFeedQuery reads the parameters of the feed.
func parseFeedQuery(pairs []web.QueryPair) (EventQuery, *web.Problem) {
	q := EventQuery{Filter: eventlog.Filter{Limit: EventsLimitDefault, Ascending: true}, feed: true}
	single := map[string]string{}
	var types, resources []web.QueryPair
	for _, pair := range pairs {
		switch {
		case IsListParam("type", pair.Name):
			types = append(types, pair)
		case IsListParam("resource", pair.Name):
			resources = append(resources, pair)
		case !slices.Contains(feedParams, pair.Name):
			return EventQuery{}, unknownFeedParam(pair.Name)
		default:
			if _, again := single[pair.Name]; again {
				return EventQuery{}, web.DuplicateParameter(pair.Name)
			}
			single[pair.Name] = pair.Value
		}
		if pair.Name != "after" {
			q.pairs = append(q.pairs, pair)
		}
	}
	refused := cmp.Or(q.parseTypes(types), q.parseResources(resources), q.parsePage(single), q.parseWait(single))
	if after, given := single["after"]; given && refused == nil {
		q.After, refused = q.parseCursor("after", after)
		q.cursorParam = "after"
	}
	return q, refused
}

func unknownFeedParam(name string) *web.Problem {
	if slices.Contains(feedParams, eventParamsMeant[strings.ToLower(name)]) {
		return web.UnknownParameter(name, eventParamsMeant, feedParams)
	}
	return web.UnknownParameter(name, nil, feedParams)
}

// parseCursor reads a cursor that a caller has from an earlier page or frame.
func (q *EventQuery) parseCursor(param, text string) (eventlog.Cursor, *web.Problem) {
	p, inFeed := record.ParseFeedPosition(text)
	_, ofEvent := record.ParsePosition(text)
	switch {
	case !q.feed && inFeed:
		return eventlog.Cursor{}, invalidCursor(param, "is a position in the feed of all accounts, which has its own order; give the id of an event of this account")
	case !q.feed:
		c, ok := eventlog.ParseCursor(text)
		if !ok {
			return eventlog.Cursor{}, invalidCursor(param, "must be the id of an event"+orLatest(param))
		}
		return c, nil
	case inFeed:
		return eventlog.CursorAt(p), nil
	case ofEvent:
		return eventlog.Cursor{}, invalidCursor(param, "is the id of an event, which is a position in the log of its account; give a position in the feed, such as the nextCursor of an earlier page")
	case param == "after" && text == "start":
		return eventlog.StartCursor(), nil
	case param == "after" && text == "latest":
		return eventlog.LatestCursor(), nil
	}
	return eventlog.Cursor{}, invalidCursor(param, "must be a position in the feed, such as the nextCursor of an earlier page"+orStart(param))
}

func orLatest(param string) string {
	if param == "after" {
		return ", or latest"
	}
	return ""
}

func orStart(param string) string {
	if param == "after" {
		return ", or start or latest"
	}
	return ""
}
