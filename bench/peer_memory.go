package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-oauth2/oauth2/v4"
	"github.com/go-oauth2/oauth2/v4/manage"
	"github.com/go-oauth2/oauth2/v4/models"
	oauthserver "github.com/go-oauth2/oauth2/v4/server"
	oauthstore "github.com/go-oauth2/oauth2/v4/store"
	"github.com/ory/fosite"
	"github.com/ory/fosite/compose"
	"github.com/ory/fosite/storage"
)

// serveGoOAuth2 serves go-oauth2 with its own store in memory.
func serveGoOAuth2(context.Context, string) (http.Handler, error) {
	clients := oauthstore.NewClientStore()
	if err := clients.Set(peerClient, &models.Client{ID: peerClient, Secret: peerSecret}); err != nil {
		return nil, err
	}
	tokens, err := oauthstore.NewMemoryTokenStore()
	if err != nil {
		return nil, err
	}
	m := manage.NewDefaultManager()
	m.MapClientStorage(clients)
	m.MapTokenStorage(tokens)
	m.SetPasswordTokenCfg(&manage.Config{AccessTokenExp: time.Hour, RefreshTokenExp: 24 * time.Hour, IsGenerateRefresh: true})
	srv := oauthserver.NewDefaultServer(m)
	srv.SetAllowedGrantType(oauth2.PasswordCredentials, oauth2.Refreshing)
	srv.SetClientInfoHandler(oauthserver.ClientFormHandler)
	srv.SetPasswordAuthorizationHandler(func(_ context.Context, _, name, given string) (string, error) {
		if name != username || given != password {
			return "", errors.New("wrong password")
		}
		return name, nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = srv.HandleTokenRequest(w, r) }), nil
}

// quickHasher stands for bcrypt, fosite's default: a client secret of 256 random bits, as
// tollhouse makes them, needs no slow hash.
type quickHasher struct{}

func (quickHasher) Compare(_ context.Context, hash, data []byte) error {
	if sum := sha256.Sum256(data); subtle.ConstantTimeCompare(hash, sum[:]) != 1 {
		return errors.New("wrong secret")
	}
	return nil
}

func (quickHasher) Hash(_ context.Context, data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	return sum[:], nil
}

// serveFosite serves fosite with its own store in memory, behind a lock: concurrent
// refreshes crash that store.
func serveFosite(ctx context.Context, _ string) (http.Handler, error) {
	secret, _ := quickHasher{}.Hash(ctx, []byte(peerSecret))
	store := storage.NewMemoryStore()
	store.Clients[peerClient] = &fosite.DefaultClient{ID: peerClient, Secret: secret, GrantTypes: []string{"password", "refresh_token"}}
	store.Users[username] = storage.MemoryUserRelation{Username: username, Password: password}
	config := &fosite.Config{GlobalSecret: []byte("0123456789abcdef0123456789abcdef"), ClientSecretsHasher: quickHasher{}, RefreshTokenScopes: []string{}}
	provider := compose.Compose(config, store, compose.NewOAuth2HMACStrategy(config),
		compose.OAuth2ResourceOwnerPasswordCredentialsFactory, compose.OAuth2RefreshTokenGrantFactory)
	var mu sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		request, err := provider.NewAccessRequest(r.Context(), r, &fosite.DefaultSession{})
		var answer fosite.AccessResponder
		if err == nil {
			answer, err = provider.NewAccessResponse(r.Context(), request)
		}
		mu.Unlock()
		if err != nil {
			provider.WriteAccessError(r.Context(), w, request, err)
			return
		}
		provider.WriteAccessResponse(r.Context(), w, request, answer)
	}), nil
}
