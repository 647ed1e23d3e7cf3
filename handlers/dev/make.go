package dev

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

	"tollhouse/handlers/api"
	"tollhouse/handlers/oauth"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// makeTokensCall is the operation whose answer the page for people shows.
const makeTokensCall = "makeTokens"

func (s *Server) makeEndpoints() []devEndpoint {
	return []devEndpoint{
		{id: makeTokensCall, method: "POST", path: "/tokens", does: "issues tokens without a grant, expired ones too", body: `{"expires_in":-60}`,
			takes: "TokenMaking", answers: []devAnswer{{200, "The tokens.", "TokenAnswer"}}, refuses: []int{404, 409},
			serve: s.makeTokens},
		{id: "makeEvents", method: "POST", path: "/events", does: "records events, past ones too", body: `{"type":"invoice.paid","resource":"inv_1","eventData":{"object":{}},"createdAt":86400}`,
			takes: "EventMaking", needsBody: true, answers: []devAnswer{{201, "The events.", "EventList"}},
			serve: s.makeEvents},
		{id: "makeSeed", method: "POST", path: "/seed", does: "creates what the lines of a seed file say", body: `{"user":{"username":"bob","password":"pw"}}`, mediaType: api.AsNDJSON,
			takes: "SeedMaking", needsBody: true, answers: []devAnswer{{201, "What was made.", "SeedList"}}, refuses: []int{404, 409},
			serve: s.makeSeed},
	}
}

var devMakeForms = []api.Form{
	{Name: "TokenMaking", Does: "Tokens to issue.", Closed: true, Members: []api.FormMember{
		{"client_id", "string", "The first client when it is missing."},
		{"username", "string", "The first user when it is missing."},
		{"scope", "string", "All when it is missing."},
		{"expires_in", "integer", "Seconds; 0 and less for an expired token."},
		{"refresh_expires_in", "integer", "Seconds."},
		{"access_token", "string", "A text of your own."},
		{"refresh_token", "string", "A text of your own."},
	}},
	{Name: "TokenAnswer", Does: "The answer of the token endpoint.", Example: `{"access_token":"tollat_9rr6cqWdLd2xYlKZ1hJkBZCKFDkRuPSrBZ1xO0rXlpT3fR2Xa","token_type":"bearer","expires_in":-60,"refresh_token":"tollrt_1P2G1TzKSTb9e0Y0qvPmqxSdxGU9zKXwTPAtWsqzGq50m9Ew2","scope":null}`, Members: []api.FormMember{
		{"access_token", "string!", "The access token."},
		{"token_type", "string!", "Always bearer."},
		{"expires_in", "integer!", "Seconds."},
		{"refresh_token", "string!", "The refresh token."},
		{"scope", "string|null!", "The permissions; null for all."},
	}},
	{Name: "EventMaking", Does: "An event, or a list of at most 1,000, each with the members of a line of import.", Kind: "object|array"},
	{Name: "EventList", Does: "The events as they stand.", Example: `{"object":"list","data":[{"id":"evt_01kt1ag0000001kx5qkgq9h1tm","object":"event"}]}`, Members: []api.FormMember{
		{"object", "string!", "Always list.", `"enum":["list"],"x-enum-varnames":["EventListObject"]`},
		{"data", "[]object!", "The events."},
	}},
	{Name: "SeedMaking", Does: "A line of a seed file, or a list of them. application/x-ndjson is read too.", Kind: "object|array"},
	{Name: "SeedList", Does: "What was made, in the order of the lines.", Example: `{"object":"list","data":[{"user":{"username":"bob","password":"pw","account":"acct_demo","disabled":false}}]}`, Members: []api.FormMember{
		{"object", "string!", "Always list.", `"enum":["list"],"x-enum-varnames":["SeedListObject"]`},
		{"data", "[]object!", "One member of each line's name."},
	}},
}

// Token describes tokens of a seed line or of POST /_dev/tokens.
type Token struct {
	ClientID         *string `json:"client_id" does:"the first client if missing"`
	Username         *string `json:"username" does:"the first user if missing"`
	Scope            string  `json:"scope" does:"separated by spaces; all that the client may have if missing"`
	ExpiresIn        *int64  `json:"expires_in" does:"in seconds, 0 or less for an expired token; that of the instance if missing"`
	RefreshExpiresIn *int64  `json:"refresh_expires_in" does:"the same for the refresh token"`
	AccessToken      *string `json:"access_token" does:"a string of your own; generated if missing"`
	RefreshToken     *string `json:"refresh_token" does:"a string of your own; generated if missing"`
}

// TokenAnswer is the answer of the token endpoint.
type TokenAnswer = oauth.TokenAnswer

// makeTokens is POST /_dev/tokens.
func (s *Server) makeTokens(w http.ResponseWriter, r *http.Request) error {
	var wanted Token
	if err := readDevBody(w, r, &wanted); err != nil {
		return err
	}
	issued, err := wanted.IssueBy(r.Context(), s.site.Store, s.site.Demo, web.By(r.Context()))
	if err != nil {
		return err
	}
	web.OAuthHeaders(w)
	oauth.WriteToken(w, issued)
	return nil
}

// Issue issues the tokens for the first client and user of demo, unless they are named.
// Its errors have a wire form.
func (d Token) Issue(ctx context.Context, s *store.Store, demo *web.Demo) (TokenAnswer, error) {
	issued, err := d.IssueBy(ctx, s, demo, store.By{})
	return oauth.AnswerOf(issued), err
}

func (d Token) IssueBy(ctx context.Context, s *store.Store, demo *web.Demo, by store.By) (store.Issued, error) {
	client, err := s.FindClient(ctx, textOr(d.ClientID, demo.ClientID))
	if err != nil {
		return store.Issued{}, unknownParty(err, "client_id", "client")
	}
	var user store.User // none of a platform client
	if !client.Platform {
		user, err = s.FindUser(ctx, textOr(d.Username, demo.Username))
		if err != nil {
			return store.Issued{}, unknownParty(err, "username", "user")
		}
	} else if err := d.ofPlatform(); err != nil {
		return store.Issued{}, err
	}
	scope, err := oauth.GrantScope(client, d.Scope)
	if err != nil {
		return store.Issued{}, err
	}
	for _, own := range []struct {
		member string
		text   *string
	}{{"access_token", d.AccessToken}, {"refresh_token", d.RefreshToken}} {
		if own.text != nil && *own.text == "" {
			return store.Issued{}, web.InvalidRequest("%s must not be empty; leave it out to get a random one.", own.member).On(own.member)
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
		return store.Issued{}, web.NewProblem(http.StatusConflict, "conflict", "Another token has this %s.", used.Field).On(used.Field).Because(err)
	case errors.Is(err, record.ErrDisabled):
		return store.Issued{}, web.NewProblem(http.StatusConflict, "conflict", "The client or the user is disabled.").Because(err)
	}
	return issued, err
}

// ofPlatform refuses what a token of a platform client does not have.
func (d Token) ofPlatform() error {
	for member, given := range map[string]bool{"username": d.Username != nil, "refresh_token": d.RefreshToken != nil, "refresh_expires_in": d.RefreshExpiresIn != nil} {
		if given {
			return web.InvalidRequest("A platform client acts without users and has no refresh token; leave out %s.", member).On(member)
		}
	}
	return nil
}

func unknownParty(err error, param, noun string) error {
	if !errors.Is(err, record.ErrNotFound) {
		return err
	}
	return web.NewProblem(http.StatusNotFound, "not_found", "This %s does not exist.", noun).On(param).Because(err)
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
		return web.InvalidRequest("There are more than %d events.", devEventsMax)
	}
	place := func(i int, param string) string {
		if !isList {
			return param
		}
		return strings.TrimSuffix(strconv.Itoa(i)+"."+param, ".")
	}
	fixtures := make([]eventlog.Fixture, len(values))
	for i, v := range values {
		if fixtures[i], err = eventlog.ParseFixture(v, s.site.Demo.Account); err != nil {
			return web.InvalidRequest("%s", web.PlainWords(web.Sentence(err.Error(), "account"))).On(place(i, "")).Because(err)
		}
	}
	events, bad, err := s.site.Store.Events.RecordFixtures(r.Context(), fixtures)
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

func fixtureProblem(bad *eventlog.LineError, param string) *web.Problem {
	p := web.InvalidRequest("%s", web.PlainWords(web.Sentence(bad.Reason, bad.Param))).On(param)
	if bad.Code == "future" {
		p.Extra = map[string]any{"hint": "POST /_dev/clock moves the clock"}
	}
	return p
}

// devItems returns the items of a JSON list, or the one value that is no list.
func devItems(body []byte) (values []snapshot.Value, isList bool, refused *web.Problem) {
	if body == nil {
		return nil, false, web.InvalidRequest("The body is missing.")
	}
	v, err := snapshot.Parse(body, devItemsDepthMax)
	if err != nil {
		return nil, false, web.BodyProblem(err)
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
	web.WriteJSON(w, status, devList[T]{"list", data})
}

// Explain returns the member and the sentence of an error's wire form, and whether it
// is a conflict.
func Explain(err error) (param, description string, conflict bool) {
	p := web.AsProblem(err)
	return p.Param, p.Description, p.Status == http.StatusConflict
}

// SeedError is what is wrong with a line of a seed.
type SeedError struct {
	Index               int // of the line, from 0
	Param, Hint, Reason string
	Exists              bool // something has that name
	Unheld              bool // the member has a value that common readers cannot hold
}

func (e *SeedError) Error() string { return e.Reason }

// makeSeed is POST /_dev/seed.
func (s *Server) makeSeed(w http.ResponseWriter, r *http.Request) error {
	lines, err := readSeedLines(w, r)
	if err != nil {
		return err
	}
	made, err := s.controls.Seed(r.Context(), lines)
	var bad *SeedError
	if errors.As(err, &bad) {
		param := strings.TrimSuffix(strconv.Itoa(bad.Index)+"."+bad.Param, ".")
		p := web.InvalidRequest("%s", web.PlainWords(web.Sentence(bad.Reason, bad.Param))).On(param)
		if bad.Unheld {
			p.Code = "invalid_json"
		}
		if bad.Exists {
			p = web.NewProblem(http.StatusConflict, "conflict", "%s", web.PlainWords(web.Sentence(bad.Reason, bad.Param))).On(param)
		}
		if bad.Hint != "" {
			p.Extra = map[string]any{"hint": bad.Hint}
		}
		return p.Because(err)
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
	if mediaType == api.AsNDJSON {
		sizeMax = devSeedSizeMax
	}
	body, err := readDevBytes(w, r, sizeMax, api.AsNDJSON, "application/json")
	if err != nil {
		return nil, err
	}
	if mediaType != api.AsNDJSON {
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
		return nil, web.InvalidRequest("There are more than %d lines.", devSeedLinesMax)
	}
	return lines, nil
}
