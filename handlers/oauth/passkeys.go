package oauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"tollhouse/handlers/passkey"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// passkeySetUp is a ceremony that has begun. Nothing of it is stored: it is sealed in the form, for
// one user, one sign-in and the second factor as it was. So its challenge serves once: what it is
// right for ends one of these.
type passkeySetUp struct {
	User     string        `json:"user"`
	Holder   string        `json:"holder"` // the sign-in, see holder
	Revision uint64        `json:"revision"`
	Name     string        `json:"name"` // of a passkey that is to be made
	State    passkey.State `json:"state"`
	Millis   int64         `json:"at"`
}

const passkeyLabel = "passkey ceremony"

// sealPasskey returns a ceremony for the form.
func (f secondFactor) sealPasskey(a *asked, name string, state passkey.State) string {
	plain, err := json.Marshal(passkeySetUp{User: a.user.Subject(), Holder: a.holder(f.site.Key), Revision: a.user.FactorRevision(),
		Name: name, State: state, Millis: f.site.Store.Now().UnixMilli()})
	if err != nil {
		panic("oauth: passkey ceremony cannot be encoded: " + err.Error())
	}
	return f.site.Key.Seal(passkeyLabel, plain)
}

// openPasskey returns the ceremony of a form, if it belongs to this user, this sign-in and the second
// factor as it is, and is not too old.
func (f secondFactor) openPasskey(a *asked, sealed string) (passkeySetUp, bool) {
	plain, ok := f.site.Key.Open(passkeyLabel, sealed)
	var s passkeySetUp
	if !ok || json.Unmarshal(plain, &s) != nil || s.User != a.user.Subject() ||
		!secret.EqualText(s.Holder, a.holder(f.site.Key)) || s.Revision != a.user.FactorRevision() {
		return passkeySetUp{}, false
	}
	age := f.site.Store.Now().Sub(time.UnixMilli(s.Millis))
	return s, age >= 0 && age <= passkey.Lasts
}

// askForPasskey returns what the second step asks the browser for. If none of the user's passkeys works
// here, it says whether the address is the reason, and returns the hosts of the others.
func (f secondFactor) askForPasskey(r *http.Request, a *asked) (ask views.PasskeyAsk, none bool, elsewhere []string) {
	at, own := passkey.AddressOf(f.site, r), a.factor.Passkeys
	if at.Offers() && len(at.Here(own)) > 0 {
		options, state := at.BeginUse(own)
		return views.PasskeyAsk{Options: options, SetUp: f.sealPasskey(a, "", state)}, false, nil
	}
	for _, p := range own {
		if p.RPID != at.RPID {
			elsewhere = append(elsewhere, p.RPID)
		}
	}
	slices.Sort(elsewhere)
	return ask, len(own) > 0 && !at.Offers(), slices.Compact(elsewhere)
}

// usedPasskey checks what the browser sent for the second step. What is wrong proves nothing.
func (f secondFactor) usedPasskey(r *http.Request, a *asked, p web.Params) store.PasskeyProof {
	s, ok := f.openPasskey(a, p.Value("setup"))
	if !ok {
		return store.PasskeyProof{Answered: true}
	}
	proof, err := passkey.AddressOf(f.site, r).FinishUse(s.State, a.user, a.factor.Passkeys, p.Value("credential"))
	if err != nil {
		web.Note(r.Context(), slog.String("passkey", err.Error()))
	}
	return proof
}

// passkeysOf is the section of the page.
func (f secondFactor) passkeysOf(r *http.Request, a *asked, screen factorScreen) views.PasskeysProps {
	at, now := passkey.AddressOf(f.site, r), f.site.Store.Now()
	props := views.PasskeysProps{Offered: at.Offers(), Full: len(a.factor.Passkeys) >= store.PasskeysMax,
		Name: screen.name, NameWrong: screen.nameWrong, NameMax: store.PasskeyNameMax, New: screen.passkey}
	for _, p := range a.factor.Passkeys {
		shown := views.ShownPasskey{ID: base64.RawURLEncoding.EncodeToString(p.ID), Name: p.Name, Made: web.Moment(p.MadeAt, now)}
		if !p.UsedAt.IsZero() {
			shown.Use = web.Moment(p.UsedAt, now)
		}
		if p.RPID != at.RPID {
			shown.Host = p.RPID
		}
		props.Own = append(props.Own, shown)
	}
	return props
}

// beginPasskey is POST /account/second-factor/passkey.
func (f secondFactor) beginPasskey(w http.ResponseWriter, r *http.Request) error {
	a, p, err := f.readWithPassword(w, r, "begin-passkey", "name")
	if err != nil || a == nil {
		return err
	}
	screen := factorScreen{do: "begin-passkey", name: p.Value("name")}
	if screen.nameWrong = !store.IsPasskeyName(screen.name); screen.nameWrong {
		screen.refused = views.PasswordInvalid
		return f.show(w, r, a, screen)
	}
	return f.show(w, r, a, factorScreen{passkey: f.newPasskey(r, a, screen.name)})
}

// newPasskey begins to make a passkey; nil where there can be none.
func (f secondFactor) newPasskey(r *http.Request, a *asked, name string) *views.NewPasskey {
	at := passkey.AddressOf(f.site, r)
	if !at.Offers() || len(a.factor.Passkeys) >= store.PasskeysMax {
		return nil
	}
	options, state := at.BeginCreate(f.site.Page(r).InstanceName(), a.user, a.factor.Passkeys)
	return &views.NewPasskey{Ask: views.PasskeyAsk{Options: options, SetUp: f.sealPasskey(a, name, state)}, EndAll: true}
}

// addPasskey is POST /account/second-factor/passkey/confirm.
func (f secondFactor) addPasskey(w http.ResponseWriter, r *http.Request) error {
	a, p, err := f.read(w, r, "setup", "credential", "end_all")
	if err != nil || a == nil {
		return err
	}
	s, ok := f.openPasskey(a, p.Value("setup"))
	if !ok || s.Name == "" {
		return staleSetUp()
	}
	made, err := passkey.AddressOf(f.site, r).FinishCreate(s.State, p.Value("credential"))
	var changed store.FactorChanged
	if err == nil {
		made.Name = s.Name
		changed, err = f.site.Store.AddPasskey(r.Context(), f.change(r, a, p), made)
	}
	if isPasskeyRefused(err) {
		web.Note(r.Context(), slog.String("passkey", err.Error()))
		again := f.newPasskey(r, a, s.Name)
		if again != nil {
			again.Refused, again.EndAll = true, p.Has("end_all")
		}
		return f.show(w, r, a, factorScreen{passkey: again})
	}
	return f.changed(w, r, changed, err, "")
}

// isPasskeyRefused reports whether a passkey was not made, for a reason that is not ours.
func isPasskeyRefused(err error) bool {
	_, invalid := errors.AsType[*record.InvalidError](err)
	return invalid || errors.Is(err, record.ErrMismatch) || errors.Is(err, record.ErrExists) || errors.Is(err, store.ErrTooManyPasskeys)
}

// removePasskey is POST /account/second-factor/passkey/remove.
func (f secondFactor) removePasskey(w http.ResponseWriter, r *http.Request) error {
	a, p, err := f.readWithPassword(w, r, "remove-passkey", "passkey")
	if err != nil || a == nil {
		return err
	}
	id, err := base64.RawURLEncoding.DecodeString(p.Value("passkey"))
	if err != nil {
		return staleSetUp().Because(err)
	}
	changed, err := f.site.Store.RemovePasskey(r.Context(), f.change(r, a, p), id)
	return f.changed(w, r, changed, err, views.DoneFactorRemoved)
}
