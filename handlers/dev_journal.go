package handlers

import (
	"encoding/json"
	"net/http"
	"strconv"

	"tollhouse/handlers/testers"
)

const journalPageMax = 1000 // entries

var journalFilters = []string{"method", "path", "status", "client_id", "grant_type", "username", "fault", "notice", "since", "limit"}

func (s *Server) devJournalEndpoints() []devEndpoint {
	return []devEndpoint{
		{method: "GET", path: "/requests", does: "lists the requests that came, the oldest first", query: journalFilters, example: "/requests?path=/oauth/v2/token", serve: s.listRequests},
		{method: "DELETE", path: "/requests", does: "empties the list of requests", serve: s.dropRequests},
	}
}

// listRequests is GET /_dev/requests.
func (s *Server) listRequests(w http.ResponseWriter, r *http.Request) error {
	filter, limit, refused := parseJournalQuery(r)
	if refused != nil {
		return refused
	}
	found, count, dropped := s.dev.Journal.Find(filter, limit)
	if found == nil {
		found = []json.RawMessage{}
	}
	writeJSON(w, http.StatusOK, struct {
		devList[json.RawMessage]
		Count   int   `json:"count"`
		Dropped int64 `json:"dropped"`
	}{devList[json.RawMessage]{"list", found}, count, dropped})
	return nil
}

// dropRequests is DELETE /_dev/requests.
func (s *Server) dropRequests(w http.ResponseWriter, _ *http.Request) error {
	s.dev.Journal.Clear()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// parseJournalQuery reads the filters; withQuery has refused unknown ones.
func parseJournalQuery(r *http.Request) (f testers.Filter, limit int, refused *problem) {
	pairs, refused := parseAPIQuery(r.URL.RawQuery)
	if refused != nil {
		return f, 0, refused
	}
	limit = journalPageMax
	for _, p := range pairs {
		var number int64
		switch p.name {
		case "method":
			f.Method = p.value
		case "path":
			f.Path = testers.Pattern(p.value)
		case "client_id":
			f.ClientID = p.value
		case "grant_type":
			f.GrantType = p.value
		case "username":
			f.Username = p.value
		case "fault":
			f.Fault = p.value
		case "status":
			number, refused = numberIn(p, 0, 599)
			status := int(number)
			f.Status = &status
		case "since":
			f.Since, refused = numberIn(p, 0, 1<<53)
		case "limit":
			number, refused = numberIn(p, 1, journalPageMax)
			limit = int(number)
		case "notice":
			f.Notice = true
			if p.value != "true" {
				refused = invalidRequest("notice must be true.").on("notice")
			}
		}
		if p.value == "" {
			refused = invalidRequest("%s must not be empty.", p.name).on(p.name)
		}
		if refused != nil {
			return f, 0, refused
		}
	}
	return f, limit, nil
}

func numberIn(p queryPair, least, most int64) (int64, *problem) {
	n, err := strconv.ParseInt(p.value, 10, 64)
	if err != nil || n < least || n > most {
		return 0, invalidRequest("%s must be a number from %d to %d.", p.name, least, most).on(p.name)
	}
	return n, nil
}
