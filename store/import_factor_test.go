package store_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"tollhouse/store"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const appBase32 = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ" // of RFC 6238, appendix B

// recoverySHA256 is what another system exports of a code.
func recoverySHA256(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:])
}

// factorLine is a line of a user with an app, a recovery code and a passkey.
func factorLine(name string) string {
	return fmt.Sprintf(`{"user":{"username":%q,"account":"acct_a","totp_secret":%q,"recovery_code_sha256":[%q],`+
		`"passkeys":[{"id":"AQID","public_key":"pQECAyYgASFYIA","sign_count":7,"rp_id":"pay.example","name":"Phone","backup_eligible":true}]}}`,
		name, appBase32, recoverySHA256("abcdefgh01234567"))
}

const accountA = `{"account":{"account":"acct_a","name":"A","created_at":1700000000}}`

// Promise (Guard §6): an import brings an app, recovery codes and passkeys, sealed here; an export with
// secrets has them and comes back as the same bytes, one without has none
func TestSecondFactorsMove(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	plain := `{"user":{"username":"nils","account":"acct_a"}}`
	importAll(t, f.Store, []string{accountA, factorLine("mara"), plain}, store.ImportAllows()...)
	u := must.Get(f.FindUser(ctx, "mara"))(t)
	if names := u.FactorNames(); !slices.Equal(names, []string{"totp", "passkey"}) || !f.NeedsFactor(u) {
		t.Errorf("second factor = %v", names)
	}
	lines := exported(t, f.Store, store.ExportSpec{Secrets: true})
	to := storetest.New(t)
	importAll(t, to.Store, lines, store.ImportAllows()...)
	again := exported(t, to.Store, store.ExportSpec{Secrets: true})
	if !slices.Equal(lines, again) {
		t.Errorf("exported again:\n%s\nwant\n%s", strings.Join(again, "\n"), strings.Join(lines, "\n"))
	}
	whole := strings.Join(lines, "\n")
	for _, want := range []string{`"totp_secret":"` + appBase32 + `"`, `"recovery_code_sha256":["` + recoverySHA256("abcdefgh01234567"), `"passkeys":[{"id":"AQID","public_key":"pQECAyYgASFYIA","sign_count":7,`} {
		if !strings.Contains(whole, want) {
			t.Errorf("the export lacks %s: %s", want, whole)
		}
	}
	for _, secret := range []string{appBase32, recoverySHA256("abcdefgh01234567"), "AQID"} {
		if without := strings.Join(exported(t, f.Store, store.ExportSpec{}), "\n"); strings.Contains(without, secret) || strings.Contains(without, "totp") {
			t.Errorf("an export without secrets has %s", secret)
		}
	}
	moved := must.Get(to.FindUser(ctx, "mara"))(t)
	prove := func(p store.FactorProof) error {
		_, _, err := to.UseFactor(ctx, store.FactorUse{Step: to.NewSecondStep(moved), Proof: p})
		return err
	}
	code := must.Get(totp.GenerateCode(appBase32, to.Clock.Now()))(t)
	if err := prove(store.FactorProof{Code: code}); err != nil {
		t.Errorf("the code of the app = %v", err)
	}
	if err := prove(store.FactorProof{Code: code}); err == nil {
		t.Error("the code is taken twice")
	}
	if err := prove(store.FactorProof{Recovery: "ABCD EFGH-O123 4567"}); err != nil {
		t.Errorf("the recovery code = %v", err)
	}
	if err := prove(store.FactorProof{Passkey: store.PasskeyProof{Answered: true, ID: []byte{1, 2, 3}, Count: 8}}); err != nil {
		t.Errorf("the passkey = %v", err)
	}
}

// Promise (Guard §6): an import refuses another form, period or length of a second factor, and a
// passkey that comes twice, in its line
func TestSecondFactorsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	must.Get(f.CreateAccount(t.Context(), "acct_a", ""))(t)
	key := `{"id":"AQID","public_key":"pQEC","sign_count":0,"rp_id":"pay.example","name":"Phone","backup_eligible":false}`
	changed := func(old, now string) string { return strings.Replace(key, old, now, 1) }
	hash := recoverySHA256("a")
	for _, members := range []string{
		`"totp_secret":"not base32!"`, `"totp_secret":"GEZDGNBV"`, `"totp_secret":"` + strings.Repeat("GEZDGNBV", 13) + `"`, `"totp_secret":""`, `"totp_secret":5`,
		`"totp_secret":"otpauth://totp/a?secret=` + appBase32 + `&period=60"`, `"totp_secret":"` + appBase32 + `","totp_period":60`, `"totp_secret":"` + appBase32 + `","totp_digits":8`, `"totp_secret":"` + appBase32 + `","totp_algorithm":"SHA256"`,
		`"recovery_code_sha256":["` + hash + `"]`, `"totp_secret":"` + appBase32 + `","recovery_code_sha256":["` + hash[1:] + `"]`, `"totp_secret":"` + appBase32 + `","recovery_code_sha256":["` + hash + `","` + hash + `"]`,
		`"totp_secret":"` + appBase32 + `","recovery_code_sha256":["` + strings.Repeat(hash+`","`, 10) + recoverySHA256("b") + `"]`, `"totp_secret":"` + appBase32 + `","recovery_code_sha256":"` + hash + `"`,
		`"passkeys":[` + key + `,` + key + `]`, `"passkeys":[` + strings.Repeat(key+",", 10) + key + `]`, `"passkeys":[5]`, `"passkeys":{}`, `"passkeys":["AQID"]`,
		`"passkeys":[` + changed(`"AQID"`, `"AQ=="`) + `]`, `"passkeys":[` + changed(`"AQID"`, `"A/ID"`) + `]`, `"passkeys":[` + changed(`"AQID"`, `""`) + `]`, `"passkeys":[` + changed(`"pQEC"`, `""`) + `]`,
		`"passkeys":[` + changed(`:0,`, `:-1,`) + `]`, `"passkeys":[` + changed(`:0,`, `:4294967296,`) + `]`, `"passkeys":[` + changed(`:0,`, `:"0",`) + `]`,
		`"passkeys":[` + changed(`"pay.example"`, `""`) + `]`, `"passkeys":[` + changed(`"Phone"`, `" "`) + `]`, `"passkeys":[` + changed(`"Phone"`, `"`+strings.Repeat("n", 61)+`"`) + `]`, `"passkeys":[` + changed(`"name"`, `"kind"`) + `]`,
	} {
		got := port(t, f.Store, store.ImportOptions{SkipErrors: true, Allow: store.ImportAllows()}, `{"user":{"username":"mara","account":"acct_a",`+members+`}}`)
		if got.Errors != 1 || got.Created.All() != 0 {
			t.Errorf("%s: %+v, want an error of the line", members, got)
		}
		for _, r := range got.reports {
			if strings.Contains(r, appBase32) || strings.Contains(r, hash[1:]) {
				t.Errorf("%s: the report repeats the secret: %s", members, r)
			}
		}
	}
	if _, err := f.FindUser(t.Context(), "mara"); err == nil {
		t.Error("the user was made")
	}
}

// TestSecondFactorsImportedAgain: the same line changes nothing; another replaces the second factor of
// a user whom nobody used or changed here, and no other's.
func TestSecondFactorsImportedAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	importAll(t, f.Store, []string{accountA, factorLine("mara"), `{"user":{"username":"nils","account":"acct_a"}}`}, store.ImportAllows()...)
	again := func(line string) (got ported) {
		t.Helper()
		return port(t, f.Store, store.ImportOptions{SkipErrors: true, Update: true, Allow: store.ImportAllows()}, line)
	}
	if got := again(factorLine("mara")); got.Unchanged != 1 || len(got.reports) > 0 {
		t.Errorf("the same line: %+v", got)
	}
	if got := again(`{"user":{"username":"mara","account":"acct_a"}}`); got.Unchanged != 1 || len(got.reports) > 0 {
		t.Errorf("a line without a second factor: %+v", got)
	}
	other := strings.Replace(factorLine("mara"), appBase32, "MFRGGZDFMZTWQ2LKMFRGGZDFMZTWQ2LK", 1)
	if got := again(other); got.Updated != 1 {
		t.Errorf("another app: %+v", got)
	}
	if got := again(factorLine("nils")); got.Updated != 1 {
		t.Errorf("a user who had none: %+v", got)
	}
	u := must.Get(f.FindUser(ctx, "mara"))(t)
	code := must.Get(totp.GenerateCode("MFRGGZDFMZTWQ2LKMFRGGZDFMZTWQ2LK", f.Clock.Now()))(t)
	_, _, err := f.UseFactor(ctx, store.FactorUse{Step: f.NewSecondStep(u), Proof: store.FactorProof{Code: code}})
	must.Do(t, err)
	if got := again(factorLine("mara")); got.Updated != 0 || len(got.reports) != 1 {
		t.Errorf("a user who signed in: %+v, want a report", got)
	}
}

// TestSecondFactorsOfAnotherKey: an app that this key does not open stops an export with secrets, which
// would let the user in by the password alone elsewhere.
func TestSecondFactorsOfAnotherKey(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := memkv.New(nil)
	clock := storetest.NewClock()
	f := storetest.Open(t, db, clock)
	importAll(t, f.Store, []string{accountA, factorLine("mara")}, store.ImportAllows()...)
	other := storetest.Open(t, db, clock, func(o *store.Options) { o.Key = secret.NewKey(nil) })
	x := must.Get(other.NewExport(ctx, store.ExportSpec{Secrets: true}))(t)
	var err error
	for n := 1; n > 0 && err == nil; {
		_, n, err = x.Next(ctx, nil)
	}
	x.Close()
	if sealed := (*store.FactorKeyError)(nil); !errors.As(err, &sealed) {
		t.Errorf("export = %v, want the user whose app cannot be opened", err)
	}
	u := must.Get(other.FindUser(ctx, "mara"))(t)
	code := must.Get(totp.GenerateCode(appBase32, clock.Now().Add(time.Minute)))(t)
	_, _, err = other.UseFactor(ctx, store.FactorUse{Step: other.NewSecondStep(u), Proof: store.FactorProof{Code: code}})
	if refused := (*store.RefusedFactor)(nil); !errors.As(err, &refused) {
		t.Errorf("a code = %v, want it refused", err)
	}
	exported(t, other.Store, store.ExportSpec{})
}
