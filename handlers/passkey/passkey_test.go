package passkey_test

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/go-webauthn/webauthn/webauthn"

	"tollhouse/handlers/passkey"
	"tollhouse/handlers/passkey/passkeytest"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

var (
	here    = passkey.Address{RPID: "pay.example", Origin: "https://pay.example"}
	harriet = store.User{ID: secret.ID{1}, Username: "harriet"}
	other   = store.User{ID: secret.ID{2}, Username: "other"}
)

// made makes a passkey of the device for a user.
func made(t testing.TB, d *passkeytest.Device, u store.User) store.Passkey {
	t.Helper()
	options, state := here.BeginCreate("Larkspur", u, nil)
	return must.Get(here.FinishCreate(state, d.Made(t, options).JSON(t)))(t)
}

// judge is the library that another project wrote. It says what it finds of the same answer.
type judge struct {
	user store.User
	own  []store.Passkey
}

func (j judge) WebAuthnID() []byte          { return []byte(j.user.Subject()) }
func (j judge) WebAuthnName() string        { return j.user.Username }
func (j judge) WebAuthnDisplayName() string { return j.user.Username }
func (j judge) WebAuthnCredentials() (all []webauthn.Credential) {
	for _, p := range here.Here(j.own) {
		all = append(all, webauthn.Credential{ID: p.ID, PublicKey: p.Key, Flags: webauthn.CredentialFlags{BackupEligible: p.Synced},
			Authenticator: webauthn.Authenticator{SignCount: p.Count}})
	}
	return all
}

func (j judge) session(t testing.TB, text string) (*webauthn.WebAuthn, webauthn.SessionData) {
	t.Helper()
	w := must.Get(webauthn.New(&webauthn.Config{RPID: here.RPID, RPDisplayName: "Larkspur", RPOrigins: []string{here.Origin},
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore}))(t)
	o := passkeytest.OptionsOf(t, text)
	session := webauthn.SessionData{Challenge: o.Challenge, RelyingPartyID: here.RPID, UserID: j.WebAuthnID(), UserVerification: protocol.VerificationDiscouraged}
	for _, p := range o.PubKeyCredParams {
		session.CredParams = append(session.CredParams, protocol.CredentialParameter{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.COSEAlgorithmIdentifier(p.Alg)})
	}
	for _, p := range o.AllowCredentials {
		session.AllowedCredentialIDs = append(session.AllowedCredentialIDs, must.Get(base64.RawURLEncoding.DecodeString(p.ID))(t))
	}
	return w, session
}

func (j judge) create(t testing.TB, options, sent string) (*webauthn.Credential, error) {
	t.Helper()
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(sent))
	if err != nil {
		return nil, err
	}
	w, session := j.session(t, options)
	return w.CreateCredential(j, session, parsed)
}

func (j judge) use(t testing.TB, options, sent string) (*webauthn.Credential, error) {
	t.Helper()
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(sent))
	if err != nil {
		return nil, err
	}
	w, session := j.session(t, options)
	return w.ValidateLogin(j, session, parsed)
}

// Promise (Guard §5): a passkey of ES256, EdDSA or RS256 is made and used, as another library has it
func TestPasskeyIsMadeAndUsed(t *testing.T) {
	t.Parallel()
	for name, algorithm := range map[string]int{"ES256": passkeytest.ES256, "EdDSA": passkeytest.EdDSA, "RS256": passkeytest.RS256} {
		for synced, flags := range map[bool]byte{false: passkeytest.UserPresent, true: passkeytest.UserPresent | passkeytest.BackupEligible | passkeytest.BackedUp} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := passkeytest.New(t, algorithm)
				d.Flags, d.Count = flags, 7
				options, state := here.BeginCreate("Larkspur", harriet, nil)
				sent := d.Made(t, options).JSON(t)
				p := must.Get(here.FinishCreate(state, sent))(t)
				judged := must.Get(judge{user: harriet}.create(t, options, sent))(t)
				if !bytes.Equal(p.ID, judged.ID) || !bytes.Equal(p.Key, judged.PublicKey) || p.Count != judged.Authenticator.SignCount || p.Synced != judged.Flags.BackupEligible {
					t.Errorf("FinishCreate = %+v, want as the library has it: %+v", p, judged)
				}
				if p.RPID != "pay.example" || p.Synced != synced || p.Count != 7 || !bytes.Equal(p.ID, d.ID) {
					t.Errorf("FinishCreate = %+v, want the device's passkey of pay.example", p)
				}
				own := []store.Passkey{p}
				options, state = here.BeginUse(own)
				d.Count = 8
				used := d.Used(t, options)
				used.UserHandle = []byte(harriet.Subject())
				sent = used.JSON(t)
				proof, err := here.FinishUse(state, harriet, own, sent)
				if err != nil || !proof.Answered || !bytes.Equal(proof.ID, d.ID) || proof.Count != 8 {
					t.Errorf("FinishUse = %+v, %v; want the passkey with count 8", proof, err)
				}
				if _, err := (judge{harriet, own}).use(t, options, sent); err != nil {
					t.Errorf("the library refuses it: %v", err)
				}
			})
		}
	}
}

// Promise (Guard §5): options ask for no PIN, no list on the device and no attestation; passkeys of
// this host alone are named, and the timeout is 5 minutes
func TestPasskeyOptions(t *testing.T) {
	t.Parallel()
	own := []store.Passkey{{ID: []byte("here"), RPID: "pay.example"}, {ID: []byte("there"), RPID: "old.example"}, {ID: []byte("below"), RPID: "a.pay.example"}}
	created, _ := here.BeginCreate("Larkspur <Payments>", harriet, own)
	o := passkeytest.OptionsOf(t, created)
	var algorithms []int
	for _, p := range o.PubKeyCredParams {
		algorithms = append(algorithms, p.Alg)
	}
	if o.RP.ID != "pay.example" || o.RP.Name != "Larkspur <Payments>" || o.User.Name != "harriet" || !slices.Equal(algorithms, []int{passkeytest.ES256, passkeytest.EdDSA, passkeytest.RS256}) ||
		o.AuthenticatorSelection.ResidentKey != "discouraged" || o.AuthenticatorSelection.UserVerification != "discouraged" || o.Attestation != "none" || o.Timeout != 300000 {
		t.Errorf("options to make one = %s", created)
	}
	if handle := must.Get(base64.RawURLEncoding.DecodeString(o.User.ID))(t); string(handle) != harriet.Subject() {
		t.Errorf("user handle = %q, want %q", handle, harriet.Subject())
	}
	used, _ := here.BeginUse(own)
	p := passkeytest.OptionsOf(t, used)
	if p.RPID != "pay.example" || p.UserVerification != "discouraged" || p.Timeout != 300000 {
		t.Errorf("options to use one = %s", used)
	}
	for what, list := range map[string][]struct{ Type, ID string }{created: o.ExcludeCredentials, used: p.AllowCredentials} {
		if len(list) != 1 || list[0].ID != base64.RawURLEncoding.EncodeToString([]byte("here")) || list[0].Type != "public-key" {
			t.Errorf("options = %s, want the one passkey of this host", what)
		}
	}
	if len(o.Challenge) < 32 || len(p.Challenge) < 32 || o.Challenge == p.Challenge {
		t.Errorf("challenges = %q and %q, want two of 24 bytes or more", o.Challenge, p.Challenge)
	}
}

// attack is a wrong answer. The library finds it wrong too, unless a rule of ours is at work.
type attack struct {
	bend     func(*passkeytest.Answer)
	ourOwn   bool                     // the library would take it
	to       func(sent string) string // what is sent in place of it
	ceremony func(s passkey.State) passkey.State
}

func (k attack) sent(t *testing.T, a *passkeytest.Answer, d *passkeytest.Device) string {
	if k.bend != nil {
		k.bend(a)
	}
	sent := a.JSON(t)
	if k.to != nil {
		sent = k.to(sent)
	}
	return sent
}

const deepObject = `{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{}}}}}}}}}}`

// ofBoth are the attacks on both ceremonies.
var ofBoth = map[string]attack{
	"an_origin_of_another_host":    {bend: func(a *passkeytest.Answer) { a.ClientData["origin"] = "https://evil.example" }},
	"an_origin_of_a_host_below":    {bend: func(a *passkeytest.Answer) { a.ClientData["origin"] = "https://a.pay.example" }},
	"an_origin_of_another_port":    {bend: func(a *passkeytest.Answer) { a.ClientData["origin"] = "https://pay.example:8443" }},
	"an_origin_of_another_scheme":  {bend: func(a *passkeytest.Answer) { a.ClientData["origin"] = "http://pay.example" }},
	"an_origin_in_capitals":        {bend: func(a *passkeytest.Answer) { a.ClientData["origin"] = "https://PAY.example" }, ourOwn: true},
	"an_origin_with_a_path":        {bend: func(a *passkeytest.Answer) { a.ClientData["origin"] = "https://pay.example/" }, ourOwn: true},
	"an_origin_with_a_user":        {bend: func(a *passkeytest.Answer) { a.ClientData["origin"] = "https://pay.example@evil.example" }},
	"no_origin":                    {bend: func(a *passkeytest.Answer) { delete(a.ClientData, "origin") }},
	"a_page_in_a_frame":            {bend: func(a *passkeytest.Answer) { a.ClientData["crossOrigin"] = true }},
	"a_page_in_a_frame_of_another": {bend: func(a *passkeytest.Answer) { a.ClientData["topOrigin"] = "https://evil.example" }},
	"another_host":                 {bend: func(a *passkeytest.Answer) { a.RPID = "evil.example" }},
	"the_origin_as_host":           {bend: func(a *passkeytest.Answer) { a.RPID = "https://pay.example" }},
	"another_challenge":            {bend: func(a *passkeytest.Answer) { a.ClientData["challenge"] = strings.Repeat("A", 35) }},
	"no_challenge":                 {bend: func(a *passkeytest.Answer) { a.ClientData["challenge"] = "" }},
	"a_padded_challenge":           {bend: func(a *passkeytest.Answer) { a.ClientData["challenge"] = a.ClientData["challenge"].(string) + "=" }},
	"no_user_present":              {bend: func(a *passkeytest.Answer) { a.Flags &^= passkeytest.UserPresent }},
	"backed_up_and_may_not_be":     {bend: func(a *passkeytest.Answer) { a.Flags |= passkeytest.BackedUp }},
	"a_type_that_is_no_key":        {bend: func(a *passkeytest.Answer) { a.Type = "password" }},
	"two_ids":                      {bend: func(a *passkeytest.Answer) { a.RawID = []byte("another") }},
	"no_id":                        {bend: func(a *passkeytest.Answer) { a.ID, a.RawID = []byte{}, []byte{} }},
	"bytes_after_the_data":         {bend: func(a *passkeytest.Answer) { a.Tail = []byte{0} }},
	"extensions_that_are_missing":  {bend: func(a *passkeytest.Answer) { a.Flags |= passkeytest.HasExtensions }},
	"deep_JSON":                    {to: func(s string) string { return strings.Replace(s, `{`, `{"deep":`+deepObject+`,`, 1) }, ourOwn: true},
	"very_deep_JSON":               {to: func(s string) string { return strings.Repeat("[", 16000) }},
	"deep_client_data": {bend: func(a *passkeytest.Answer) {
		a.ClientData["deep"] = [][][][][][][][][]int{}
		a.ClientData["deep"] = []any{[]any{[]any{[]any{[]any{[]any{[]any{[]any{[]any{}}}}}}}}}
	}, ourOwn: true},
	"17_KiB":                       {bend: func(a *passkeytest.Answer) { a.Extra["pad"] = strings.Repeat("x", 17<<10) }, ourOwn: true},
	"not_JSON":                     {to: func(string) string { return "id=1" }},
	"nothing":                      {to: func(string) string { return "" }},
	"null":                         {to: func(string) string { return "null" }},
	"a_list":                       {to: func(s string) string { return "[" + s + "]" }},
	"JSON_and_more":                {to: func(s string) string { return s + "{}" }},
	"a_member_twice":               {to: func(s string) string { return strings.Replace(s, `{`, `{"type":"public-key",`, 1) }, ourOwn: true},
	"padded_base64":                {to: func(s string) string { return strings.Replace(s, `"id":"`, `"id":"=`, 1) }},
	"another_ceremony":             {ceremony: func(s passkey.State) passkey.State { return "webauthn.other" + s[strings.IndexByte(string(s), ' '):] }, ourOwn: true},
	"no_ceremony":                  {ceremony: func(passkey.State) passkey.State { return "" }, ourOwn: true},
	"a_ceremony_without_challenge": {bend: func(a *passkeytest.Answer) { a.ClientData["challenge"] = "" }, ceremony: func(s passkey.State) passkey.State { return s[:strings.IndexByte(string(s), ' ')+1] }},
}

var ofMaking = map[string]attack{
	"a_passkey_that_was_used":     {bend: func(a *passkeytest.Answer) { a.ClientData["type"] = "webauthn.get" }},
	"no_key":                      {bend: func(a *passkeytest.Answer) { a.Flags &^= passkeytest.HasCredential }},
	"another_id_within":           {bend: func(a *passkeytest.Answer) { a.Attested = []byte("another") }},
	"no_id_within":                {bend: func(a *passkeytest.Answer) { a.Attested = nil }},
	"an_id_of_1024_bytes":         {bend: func(a *passkeytest.Answer) { a.ID = make([]byte, 1024); a.RawID, a.Attested = a.ID, a.ID }},
	"ES384":                       {bend: func(a *passkeytest.Answer) { a.COSEKey[3] = -35 }},
	"an_algorithm_of_another_key": {bend: func(a *passkeytest.Answer) { a.COSEKey[3] = passkeytest.EdDSA }, ourOwn: true},
	"a_point_off_the_curve":       {bend: func(a *passkeytest.Answer) { a.COSEKey[-2] = make([]byte, 32) }, ourOwn: true},
	"a_short_point":               {bend: func(a *passkeytest.Answer) { a.COSEKey[-2] = make([]byte, 31) }, ourOwn: true},
	"another_curve":               {bend: func(a *passkeytest.Answer) { a.COSEKey[-1] = 2 }, ourOwn: true},
	"an_empty_key":                {bend: func(a *passkeytest.Answer) { a.COSEKey = map[int]any{} }},
}

var ofUsing = map[string]attack{
	"a_passkey_that_was_made":   {bend: func(a *passkeytest.Answer) { a.ClientData["type"] = "webauthn.create"; a.COSEKey = nil }},
	"a_signature_of_another":    {bend: func(a *passkeytest.Answer) { a.Signature = []byte("0") }},
	"no_signature":              {bend: func(a *passkeytest.Answer) { a.Signature = []byte{} }},
	"the_handle_of_another":     {bend: func(a *passkeytest.Answer) { a.UserHandle = []byte(other.Subject()) }},
	"an_unknown_passkey":        {bend: func(a *passkeytest.Answer) { a.ID, a.RawID = []byte("unknown"), []byte("unknown") }},
	"one_that_may_be_backed_up": {bend: func(a *passkeytest.Answer) { a.Flags |= passkeytest.BackupEligible }},
}

// Promise (Guard §5): an answer of a browser that is wrong in any part makes no passkey
func TestRefusedNewPasskeys(t *testing.T) {
	t.Parallel()
	attacks := maps.Clone(ofBoth)
	maps.Copy(attacks, ofMaking)
	for name, k := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := passkeytest.New(t, passkeytest.ES256)
			options, state := here.BeginCreate("Larkspur", harriet, nil)
			sent := k.sent(t, d.Made(t, options), d)
			if k.ceremony != nil {
				state = k.ceremony(state)
			}
			if p, err := here.FinishCreate(state, sent); err == nil || p.ID != nil {
				t.Errorf("FinishCreate = %+v, %v; want it refused", p, err)
			}
			if _, err := (judge{user: harriet}).create(t, options, sent); (err == nil) != k.ourOwn {
				t.Errorf("the library says %v", err)
			}
		})
	}
}

// Promise (Guard §5): an answer of a browser that is wrong in any part proves nothing
func TestRefusedPasskeys(t *testing.T) {
	t.Parallel()
	attacks := maps.Clone(ofBoth)
	maps.Copy(attacks, ofUsing)
	for name, k := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := passkeytest.New(t, passkeytest.ES256)
			own := []store.Passkey{made(t, d, harriet)}
			options, state := here.BeginUse(own)
			sent := k.sent(t, d.Used(t, options), d)
			if k.ceremony != nil {
				state = k.ceremony(state)
			}
			wantRefused(t, state, harriet, own, sent)
			if _, err := (judge{harriet, own}).use(t, options, sent); (err == nil) != k.ourOwn {
				t.Errorf("the library says %v", err)
			}
		})
	}
}

func wantRefused(t *testing.T, state passkey.State, u store.User, own []store.Passkey, sent string) {
	t.Helper()
	proof, err := here.FinishUse(state, u, own, sent)
	if err == nil || proof.ID != nil || proof.Count != 0 || !proof.Answered {
		t.Errorf("FinishUse = %+v, %v; want a proof of nothing and why", proof, err)
	}
}

// Promise (Guard §5): a passkey of another user, of another host, of another challenge or one whose
// backup flag has changed is refused
func TestPasskeysOfOthers(t *testing.T) {
	t.Parallel()
	d := passkeytest.New(t, passkeytest.ES256)
	p := made(t, d, harriet)
	own := []store.Passkey{p}

	t.Run("of_another_user", func(t *testing.T) {
		t.Parallel()
		e := passkeytest.New(t, passkeytest.ES256)
		e.ID = []byte("of another")
		theirs := []store.Passkey{made(t, e, other)}
		options, state := here.BeginUse(own)
		wantRefused(t, state, harriet, own, e.Used(t, options).JSON(t))
		forged := e.Used(t, options) // under the id of harriet's
		forged.ID, forged.RawID = d.ID, d.ID
		wantRefused(t, state, harriet, own, forged.JSON(t))
		if _, err := here.FinishUse(state, other, theirs, e.Used(t, options).JSON(t)); err != nil {
			t.Errorf("FinishUse of its own user: %v", err)
		}
	})
	t.Run("of_another_host", func(t *testing.T) {
		t.Parallel()
		moved := p
		moved.RPID = "old.example"
		options, state := here.BeginUse(own)
		wantRefused(t, state, harriet, []store.Passkey{moved}, d.Used(t, options).JSON(t))
	})
	t.Run("of_another_ceremony", func(t *testing.T) {
		t.Parallel()
		first, _ := here.BeginUse(own)
		_, state := here.BeginUse(own)
		wantRefused(t, state, harriet, own, d.Used(t, first).JSON(t))
		making, state := here.BeginCreate("Larkspur", harriet, nil)
		wantRefused(t, state, harriet, own, d.Used(t, making).JSON(t))
	})
	t.Run("whose_backup_flag_was_taken_away", func(t *testing.T) {
		t.Parallel()
		synced := p
		synced.Synced = true
		options, state := here.BeginUse([]store.Passkey{synced})
		wantRefused(t, state, harriet, []store.Passkey{synced}, d.Used(t, options).JSON(t))
	})
	t.Run("with_a_key_that_is_none", func(t *testing.T) {
		t.Parallel()
		broken := p
		broken.Key = []byte("0")
		options, state := here.BeginUse(own)
		wantRefused(t, state, harriet, []store.Passkey{broken}, d.Used(t, options).JSON(t))
	})
}

// TestPasskeysThatBrowsersMake: password managers and keys add what nobody asked for.
func TestPasskeysThatBrowsersMake(t *testing.T) {
	t.Parallel()
	for name, bend := range map[string]func(*passkeytest.Answer){
		"extensions_unasked": func(a *passkeytest.Answer) {
			a.Extra["clientExtensionResults"] = map[string]any{"credProps": map[string]any{"rk": true}, "prf": map[string]any{"enabled": true}}
		},
		"extensions_of_the_key": func(a *passkeytest.Answer) {
			a.Flags |= passkeytest.HasExtensions
			a.Tail = []byte("\xa1\x6bcredProtect\x01")
		},
		"members_of_tomorrow": func(a *passkeytest.Answer) {
			a.ClientData["new_keys_may_be_added_here"] = "do not compare clientDataJSON against a template"
			a.Extra["x"] = 1
		},
		"the_user_was_verified": func(a *passkeytest.Answer) { a.Flags |= 1 << 2 },
		"no_word_on_frames":     func(a *passkeytest.Answer) { delete(a.ClientData, "crossOrigin") },
		"no_attachment":         func(a *passkeytest.Answer) { a.Extra["authenticatorAttachment"] = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := passkeytest.New(t, passkeytest.ES256)
			options, state := here.BeginCreate("Larkspur", harriet, nil)
			a := d.Made(t, options)
			bend(a)
			p := must.Get(here.FinishCreate(state, a.JSON(t)))(t)
			options, state = here.BeginUse([]store.Passkey{p})
			a = d.Used(t, options)
			bend(a)
			if _, err := here.FinishUse(state, harriet, []store.Passkey{p}, a.JSON(t)); err != nil {
				t.Errorf("FinishUse: %v", err)
			}
		})
	}
}

// FuzzFinish: without the key no text proves a passkey, and none makes one of another host.
func FuzzFinish(f *testing.F) {
	d := passkeytest.New(f, passkeytest.ES256)
	p := made(f, d, harriet)
	own := []store.Passkey{p}
	options, using := here.BeginUse(own)
	wrong := d.Used(f, options)
	wrong.Signature = []byte("0")
	f.Add(wrong.JSON(f))
	options, making := here.BeginCreate("Larkspur", harriet, nil)
	f.Add(d.Made(f, options).JSON(f))
	f.Add(`{"id":"","rawId":"","type":"public-key","response":{}}`)
	f.Fuzz(func(t *testing.T, sent string) {
		if proof, err := here.FinishUse(using, harriet, own, sent); err == nil || proof.ID != nil {
			t.Errorf("FinishUse(%q) = %+v, %v; want it refused", sent, proof, err)
		}
		if p, err := here.FinishCreate(making, sent); err == nil && (p.RPID != here.RPID || len(p.ID) == 0 || len(p.ID) > 1023 || len(p.Key) == 0) {
			t.Errorf("FinishCreate(%q) = %+v", sent, p)
		}
	})
}

// Promise (Guard §5): a key that its algorithm cannot use, or of RSA below 2,048 bits, is refused
func TestRefusedKeys(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		algorithm int
		bend      func(key map[int]any)
	}{
		"ES256_cut_elsewhere": {passkeytest.ES256, func(k map[int]any) {
			x, y := k[-2].([]byte), k[-3].([]byte)
			k[-2], k[-3] = x[:31], append(x[31:32:32], y...)
		}},
		"ES256_of_another_type":     {passkeytest.ES256, func(k map[int]any) { k[1] = 1 }},
		"EdDSA_as_ES256":            {passkeytest.EdDSA, func(k map[int]any) { k[3] = passkeytest.ES256 }},
		"EdDSA_as_another":          {passkeytest.EdDSA, func(k map[int]any) { k[3] = -53 }},
		"EdDSA_on_another_curve":    {passkeytest.EdDSA, func(k map[int]any) { k[-1] = 7 }},
		"EdDSA_that_is_short":       {passkeytest.EdDSA, func(k map[int]any) { k[-2] = k[-2].([]byte)[:31] }},
		"RS256_as_PS256":            {passkeytest.RS256, func(k map[int]any) { k[3] = -37 }},
		"RS256_as_RS1":              {passkeytest.RS256, func(k map[int]any) { k[3] = -65535 }},
		"RS256_of_1024_bits":        {passkeytest.RS256, func(k map[int]any) { k[-1] = k[-1].([]byte)[:128] }},
		"RS256_of_6144_bits":        {passkeytest.RS256, func(k map[int]any) { k[-1] = bytes.Repeat(k[-1].([]byte), 3) }},
		"RS256_with_the_exponent_1": {passkeytest.RS256, func(k map[int]any) { k[-2] = []byte{1} }},
		"RS256_with_an_even_one":    {passkeytest.RS256, func(k map[int]any) { k[-2] = []byte{1, 0, 0} }},
		"RS256_with_a_huge_one":     {passkeytest.RS256, func(k map[int]any) { k[-2] = []byte{1, 0, 0, 0, 1} }},
		"RS256_with_one_that_wraps": {passkeytest.RS256, func(k map[int]any) { k[-2] = []byte{1, 0, 0, 0, 0, 0, 0, 0, 3} }},
		"RS256_without_a_modulus":   {passkeytest.RS256, func(k map[int]any) { delete(k, -1) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := passkeytest.New(t, test.algorithm)
			options, state := here.BeginCreate("Larkspur", harriet, nil)
			a := d.Made(t, options)
			test.bend(a.COSEKey)
			if p, err := here.FinishCreate(state, a.JSON(t)); err == nil {
				t.Errorf("FinishCreate = %+v, want it refused", p)
			}
		})
	}
}
