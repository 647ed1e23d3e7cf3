package handlers

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// holder is a connection that notes what it is asked for.
type holder struct {
	noConnection
	asked []string
}

func (h *holder) Hold()    { h.asked = append(h.asked, "hold") }
func (h *holder) Release() { h.asked = append(h.asked, "release") }

func TestALargeResponseOverHTTP1IsHeldUntilItsSecondWrite(t *testing.T) {
	a := parallelAPI(t)
	large := a.server.withRequest(publicListener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, holdSizeMin+1))
	}))
	small := a.server.withRequest(publicListener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, holdSizeMin))
	}))
	for _, tt := range []struct {
		name    string
		handler http.Handler
		major   int
		want    []string
	}{
		{"large", large, 1, []string{"hold", "release"}},
		{"small", small, 1, nil},
		{"over HTTP/2", large, 2, nil},
	} {
		conn := &holder{}
		r := httptest.NewRequestWithContext(WithConnection(t.Context(), conn), http.MethodGet, "/", nil)
		r.ProtoMajor = tt.major
		tt.handler.ServeHTTP(httptest.NewRecorder(), r)
		if !slices.Equal(conn.asked, tt.want) {
			t.Errorf("%s: the connection was asked for %q, want %q", tt.name, conn.asked, tt.want)
		}
	}
}
