package oauth

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// TestTheTokenAnswerIsItsJSON: what is appended is what encoding/json writes, and of texts that a
// test chose it says the same.
func TestTheTokenAnswerIsItsJSON(t *testing.T) {
	t.Parallel()
	drawn := store.Issued{AccessToken: secret.New(nil, secret.AccessToken), RefreshToken: secret.New(nil, secret.RefreshToken), ExpiresIn: time.Hour}
	odd, _ := secret.Fixture("a \"b\"\\ <&> ä \u2028 🍵")
	for name, issued := range map[string]store.Issued{
		"a pair":               drawn,
		"a narrowed pair":      {AccessToken: drawn.AccessToken, RefreshToken: drawn.RefreshToken, ExpiresIn: time.Second - 1, Scope: store.ScopeEventsRead | store.ScopePlatform},
		"of a client":          {AccessToken: drawn.AccessToken, ExpiresIn: 60 * time.Second},
		"expired before it is": {AccessToken: drawn.AccessToken, RefreshToken: drawn.RefreshToken, ExpiresIn: -100 * 365 * 24 * time.Hour},
		"of texts of a test":   {AccessToken: odd, RefreshToken: odd},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			want := AnswerOf(issued)
			got := string(want.append(nil))
			encoded := string(must.Get(json.Marshal(want))(t))
			var read TokenAnswer
			must.Do(t, json.Unmarshal([]byte(got), &read))
			if !reflect.DeepEqual(read, want) || got != encoded && !strings.Contains(got, "<") {
				t.Errorf("the answer is %s, want %s", got, encoded)
			}
		})
	}
}

// BenchmarkTokenAnswer is the body of a refresh.
func BenchmarkTokenAnswer(b *testing.B) {
	w := httptest.NewRecorder()
	issued := store.Issued{AccessToken: secret.New(nil, secret.AccessToken), RefreshToken: secret.New(nil, secret.RefreshToken), ExpiresIn: time.Hour}
	b.ReportAllocs()
	for b.Loop() {
		w.Body.Reset()
		WriteToken(w, issued)
	}
}
