package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

func (s *Server) devMakeEndpoints() []devEndpoint {
	return []devEndpoint{
		{method: "POST", path: "/tokens", does: "issues tokens without a grant, expired ones too", body: `{"expires_in":-60}`, serve: s.makeTokens},
		{method: "POST", path: "/events", does: "records events, past ones too", body: `{"type":"invoice.paid","resource":"inv_1","eventData":{"object":{}},"createdAt":86400}`, serve: s.makeEvents},
		{method: "POST", path: "/seed", does: "creates what the lines of a seed file say", body: `{"user":{"username":"bob","password":"pw"}}`, mediaType: ndjsonType, serve: s.makeSeed},
	}
}

// DevToken describes tokens of a seed line or of POST /_dev/tokens.
type DevToken struct {
	ClientID         *string `json:"client_id"`
	Username         *string `json:"username"`
	Scope            string  `json:"scope"`
	ExpiresIn        *int64  `json:"expires_in"` // seconds
	RefreshExpiresIn *int64  `json:"refresh_expires_in"`
	AccessToken      *string `json:"access_token"`
	RefreshToken     *string `json:"refresh_token"`
}

// DevTokenAnswer is the answer of the token endpoint.
type DevTokenAnswer = tokenAnswer

// makeTokens is POST /_dev/tokens.
func (s *Server) makeTokens(w http.ResponseWriter, r *http.Request) error {
	var wanted DevToken
	if err := readDevBody(w, r, &wanted); err != nil {
		return err
	}
	issued, err := wanted.issue(r.Context(), s.store, s.demo, by(r.Context()))
	if err != nil {
		return err
	}
	oauthHeaders(w)
	writeToken(w, issued)
	return nil
}

// Issue issues the tokens for the first client and user of demo, unless they are named.
// Its errors have a wire form.
func (d DevToken) Issue(ctx context.Context, s *store.Store, demo *Demo) (DevTokenAnswer, error) {
	issued, err := d.issue(ctx, s, demo, store.By{})
	return answerOf(issued), err
}

func (d DevToken) issue(ctx context.Context, s *store.Store, demo *Demo, by store.By) (store.Issued, error) {
	client, err := s.FindClient(ctx, textOr(d.ClientID, demo.ClientID))
	if err != nil {
		return store.Issued{}, unknownParty(err, "client_id", "client")
	}
	user, err := s.FindUser(ctx, textOr(d.Username, demo.Username))
	if err != nil {
		return store.Issued{}, unknownParty(err, "username", "user")
	}
	scope, err := grantScope(client, d.Scope)
	if err != nil {
		return store.Issued{}, err
	}
	for _, own := range []struct {
		member string
		text   *string
	}{{"access_token", d.AccessToken}, {"refresh_token", d.RefreshToken}} {
		if own.text != nil && *own.text == "" {
			return store.Issued{}, invalidRequest("%s must not be empty; leave it out to get a random one.", own.member).on(own.member)
		}
	}
	issued, err := s.IssueFixture(ctx, store.TokenSpec{
		Client: client, User: user, Scope: scope, By: by,
		ExpiresIn: inSeconds(d.ExpiresIn), RefreshExpiresIn: inSeconds(d.RefreshExpiresIn),
		AccessToken: textOr(d.AccessToken, ""), RefreshToken: textOr(d.RefreshToken, ""),
	})
	var used *store.UsedError
	switch {
	case errors.As(err, &used):
		return store.Issued{}, newProblem(http.StatusConflict, "conflict", "Another token has this %s.", used.Field).on(used.Field).because(err)
	case errors.Is(err, record.ErrDisabled):
		return store.Issued{}, newProblem(http.StatusConflict, "conflict", "The client or the user is disabled.").because(err)
	}
	return issued, err
}

func unknownParty(err error, param, noun string) error {
	if !errors.Is(err, record.ErrNotFound) {
		return err
	}
	return newProblem(http.StatusNotFound, "not_found", "This %s does not exist.", noun).on(param).because(err)
}

func textOr(given *string, usual string) string {
	if given == nil {
		return usual
	}
	return *given
}

// inSeconds stays within the durations that Go can express; the store refuses long
// ones.
func inSeconds(n *int64) *time.Duration {
	if n == nil {
		return nil
	}
	const most = int64(2 * store.TokenLifetimeMax / time.Second)
	d := time.Duration(min(max(*n, -most), most)) * time.Second
	return &d
}

const devEventsMax = 1000 // in one request

// makeEvents is POST /_dev/events.
func (s *Server) makeEvents(w http.ResponseWriter, r *http.Request) error {
	body, err := readDevBytes(w, r, devBodySizeMax, "application/json")
	if err != nil {
		return err
	}
	values, isList, refused := devItems(body)
	switch {
	case refused != nil:
		return refused
	case len(values) > devEventsMax:
		return invalidRequest("There are more than %d events.", devEventsMax)
	}
	place := func(i int, param string) string {
		if !isList {
			return param
		}
		return strings.TrimSuffix(strconv.Itoa(i)+"."+param, ".")
	}
	fixtures := make([]eventlog.Fixture, len(values))
	for i, v := range values {
		if fixtures[i], err = eventlog.ParseFixture(v, s.demo.Account); err != nil {
			return invalidRequest("%s", plainWords(sentence(err.Error()))).on(place(i, "")).because(err)
		}
	}
	events, bad, err := s.store.RecordFixtures(r.Context(), fixtures)
	if err != nil {
		return err
	}
	if bad != nil {
		return fixtureProblem(bad, place(bad.Line-1, bad.Param))
	}
	data := make([]json.RawMessage, len(events))
	for i, e := range events {
		data[i] = json.RawMessage(e)
	}
	writeDevList(w, http.StatusCreated, data)
	return nil
}

func fixtureProblem(bad *eventlog.LineError, param string) *problem {
	p := invalidRequest("%s", plainWords(sentence(bad.Reason))).on(param)
	if bad.Code == "future" {
		p.extra = map[string]any{"hint": "POST /_dev/clock moves the clock"}
	}
	return p
}

// devItems returns the items of a JSON list, or the one value that is no list.
func devItems(body []byte) (values []snapshot.Value, isList bool, refused *problem) {
	if body == nil {
		return nil, false, invalidRequest("The body is missing.")
	}
	v, err := snapshot.Parse(body, devItemsDepthMax)
	if err != nil {
		return nil, false, invalidRequest("The body is not valid JSON: %s.", plainWords(err.Error())).because(err)
	}
	if v.Kind() == snapshot.Array {
		return v.Elements(), true, nil
	}
	return []snapshot.Value{v}, false, nil
}

// devItemsDepthMax is that of a snapshot in an event in a seed line in a list.
const devItemsDepthMax = snapshot.DepthMax + 4

// devList is a list in an answer of the controls.
type devList[T any] struct {
	Object string `json:"object"` // always "list"
	Data   []T    `json:"data"`
}

func writeDevList[T any](w http.ResponseWriter, status int, data []T) {
	writeJSON(w, status, devList[T]{"list", data})
}

// Explain returns the member and the sentence of an error's wire form, and whether it
// is a conflict.
func Explain(err error) (param, description string, conflict bool) {
	p := asProblem(err)
	return p.param, p.description, p.status == http.StatusConflict
}

// SeedError is what is wrong with a line of a seed.
type SeedError struct {
	Index               int // of the line, from 0
	Param, Hint, Reason string
	Exists              bool // something has that name
}

func (e *SeedError) Error() string { return e.Reason }

// makeSeed is POST /_dev/seed.
func (s *Server) makeSeed(w http.ResponseWriter, r *http.Request) error {
	lines, err := readSeedLines(w, r)
	if err != nil {
		return err
	}
	made, err := s.dev.Seed(r.Context(), lines)
	var bad *SeedError
	if errors.As(err, &bad) {
		param := strings.TrimSuffix(strconv.Itoa(bad.Index)+"."+bad.Param, ".")
		p := invalidRequest("%s", plainWords(sentence(bad.Reason))).on(param)
		if bad.Exists {
			p = newProblem(http.StatusConflict, "conflict", "%s", plainWords(sentence(bad.Reason))).on(param)
		}
		if bad.Hint != "" {
			p.extra = map[string]any{"hint": bad.Hint}
		}
		return p.because(err)
	}
	if err != nil {
		return err
	}
	writeDevList(w, http.StatusCreated, made)
	return nil
}

const (
	devSeedSizeMax  = 64 << 20 // bytes
	devSeedLinesMax = 1_000_000
)

// readSeedLines returns the lines of the body, without blank ones: those of NDJSON, or
// the items of a JSON list, or the one object.
func readSeedLines(w http.ResponseWriter, r *http.Request) (lines [][]byte, err error) {
	sizeMax := int64(devBodySizeMax)
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType == ndjsonType {
		sizeMax = devSeedSizeMax
	}
	body, err := readDevBytes(w, r, sizeMax, ndjsonType, "application/json")
	if err != nil {
		return nil, err
	}
	if mediaType != ndjsonType {
		values, _, refused := devItems(body)
		if refused != nil {
			return nil, refused
		}
		for _, v := range values {
			lines = append(lines, v.Append(nil))
		}
		return lines, nil
	}
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	if len(lines) > devSeedLinesMax {
		return nil, invalidRequest("There are more than %d lines.", devSeedLinesMax)
	}
	return lines, nil
}
