package oauth

import (
	"encoding/json"
	"net/http"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
)

// A device cookie records in which browsers a user has signed in before. It is sealed
// with the server key and not stored. It grants no access; it only keeps failures of
// strangers from delaying the user. It carries the user's generation, so that it ends
// with the user's sessions.
type deviceCookie struct {
	User       string `json:"user"`
	Generation uint64 `json:"generation"`
	ID         string `json:"id"`
	Millis     int64  `json:"at"`
	// Factor says that the second factor was proved there. Who had only the password while that
	// was enough could have any number of browsers known, each with codes to guess.
	Factor bool `json:"factor,omitempty"`
}

const (
	deviceLabel    = "device cookie"
	deviceLifetime = 90 * 24 * time.Hour
)

// device returns the browser's id if the named user has signed in with it, or "".
func device(s *web.Site, r *http.Request, name string) string {
	return openDevice(s, r, name).ID
}

// factorDevice returns what device does if the user has proved the second factor there, or "".
func factorDevice(s *web.Site, r *http.Request, name string) string {
	if d := openDevice(s, r, name); d.Factor {
		return d.ID
	}
	return ""
}

// openDevice returns the browser's cookie if it is of the named user, or a zero one.
func openDevice(s *web.Site, r *http.Request, name string) deviceCookie {
	c, err := r.Cookie(s.CookiesOf(r).DeviceName)
	if err != nil {
		return deviceCookie{}
	}
	plain, ok := s.Key.Open(deviceLabel, c.Value)
	var d deviceCookie
	if !ok || json.Unmarshal(plain, &d) != nil {
		return deviceCookie{}
	}
	if age := s.Store.Now().Sub(time.UnixMilli(d.Millis)); age < 0 || age > deviceLifetime {
		return deviceCookie{}
	}
	user, err := s.Store.FindUser(r.Context(), name)
	if err != nil || user.Subject() != d.User || user.Generation != d.Generation {
		return deviceCookie{}
	}
	return d
}

// setDevice stores the user's sign-in in the browser under the id that
// [device] returned: one bucket per user and browser.
func setDevice(s *web.Site, w http.ResponseWriter, r *http.Request, user store.User, id string, factor bool) {
	if id == "" {
		id = secret.Text(nil)
	}
	plain, err := json.Marshal(deviceCookie{User: user.Subject(), Generation: user.Generation, ID: id,
		Millis: s.Store.Now().UnixMilli(), Factor: factor})
	if err != nil {
		panic("oauth: device cookie cannot be encoded: " + err.Error())
	}
	cookies := s.CookiesOf(r)
	http.SetCookie(w, &http.Cookie{
		Name: cookies.DeviceName, Value: s.Key.Seal(deviceLabel, plain), Path: "/", MaxAge: int(deviceLifetime.Seconds()),
		HttpOnly: true, Secure: cookies.Secure, SameSite: http.SameSiteLaxMode,
	})
}
