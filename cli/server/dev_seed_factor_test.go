package server

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"tollhouse/cli/datadir"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook/target"
)

// Promise (Guard §6): a seed file of dev takes a second factor, whose codes go by the instance's clock
func TestSeedTakesASecondFactor(t *testing.T) {
	t.Parallel()
	const app, recovery = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", "abcdefgh01234567"
	now := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	data := must.Get(datadir.Open(t.Context(), datadir.Options{Engine: datadir.EngineMemory, Key: secret.NewKey(nil), Log: slog.New(slog.DiscardHandler), Dev: &datadir.DevOptions{}, Now: func() time.Time { return now }}))(t)
	defer func() { must.Do(t, data.Close()) }()
	line := fmt.Sprintf(`{"user":{"username":"ines","password":"pw","account":"acct_new","totp_secret":%q,"recovery_code_sha256":["%x"]}}`, app, secret.HashOf(recovery))
	must.Get(must.Get(parseSeed([][]byte{[]byte(line)}, snapshot.Rules{}))(t).apply(t.Context(), data.Store, nil, new(target.Rules)))(t)
	u := must.Get(data.Store.AuthenticateUser(t.Context(), secret.Caller{}, "ines", "pw"))(t)
	for _, proof := range []store.FactorProof{{Code: must.Get(totp.GenerateCode(app, now))(t)}, {Recovery: recovery}} {
		if _, _, err := data.Store.UseFactor(t.Context(), store.FactorUse{Step: data.Store.NewSecondStep(u), Proof: proof}); err != nil {
			t.Errorf("%+v = %v", proof, err)
		}
	}
}
