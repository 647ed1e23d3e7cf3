package handlers

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
)

func (s *Server) devMakeEndpoints() []devEndpoint {
	return []devEndpoint{
		{method: "POST", path: "/tokens", does: "issues tokens without a grant, expired ones too", body: `{"expires_in":-60}`, serve: s.makeTokens},
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
	for field, text := range map[string]*string{"access_token": d.AccessToken, "refresh_token": d.RefreshToken} {
		if text != nil && *text == "" {
			return store.Issued{}, invalidRequest("%s must not be empty; leave it out to get a random one.", field).on(field)
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
