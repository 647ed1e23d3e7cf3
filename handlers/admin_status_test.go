package handlers_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest"
)

func TestOperatorsAnswersAreRoutes(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	answer := func(c handlers.Config, path string) *httptest.ResponseRecorder {
		c.Store, c.Key, c.PublicURL, c.Log = f.Store, f.Key, &url.URL{Scheme: "http", Host: "127.0.0.1"}, slog.New(slog.DiscardHandler)
		w := httptest.NewRecorder()
		handlers.New(c).Admin().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil))
		return w
	}
	server := handlers.Config{
		Settings: func() []admin.Setting {
			return []admin.Setting{{Name: "listen", Value: "127.0.0.1:8080", From: "flag", Variable: "TOLLHOUSE_LISTEN"}}
		},
		Status: func(context.Context) admin.ServerStatus {
			return admin.ServerStatus{Status: admin.StateReady, PID: 7}
		},
		Doctor: func(_ context.Context, depth admin.Depth, report func(admin.Finding)) {
			report(admin.Finding{Check: "disk", State: admin.StateOK, Detail: "all"})
			if depth == admin.DepthAll {
				report(admin.Finding{Check: "blocks", State: admin.StateOK, Detail: "read"})
			}
		},
	}
	const disk = `{"check":"disk","state":"ok","detail":"all"}` + "\n"
	for path, want := range map[string]string{
		"/admin/settings":         `[{"name":"listen","value":"127.0.0.1:8080","from":"flag","variable":"TOLLHOUSE_LISTEN"}]` + "\n",
		"/admin/status":           `{"status":"ready","url":"","listen":null,"version":"","pid":7,"started":0}` + "\n",
		"/admin/doctor":           disk,
		"/admin/doctor?deep=true": disk + `{"check":"blocks","state":"ok","detail":"read"}` + "\n",
	} {
		if w := answer(server, path); w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("GET %s = %d %s, want %s", path, w.Code, w.Body, want)
		}
		if w := answer(handlers.Config{}, path); w.Code != http.StatusNotFound {
			t.Errorf("GET %s without an answer = %d, want 404", path, w.Code)
		}
	}
}
