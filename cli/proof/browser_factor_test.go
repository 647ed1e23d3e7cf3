package proof

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tollhouse/store/storetest/must"
)

// appCode is the code of an authenticator app (RFC 6238), written anew for the tests.
func appCode(t testing.TB, secret string, at time.Time) string {
	t.Helper()
	key := must.Get(base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(secret, " ", "")))(t)
	mac := hmac.New(sha1.New, key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(at.Unix()/30)))
	sum := mac.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[len(sum)-1]&15:])&0x7fffffff%1_000_000)
}

// reachFactorPage signs Maud in at the page of her second factor.
func reachFactorPage(tb *tab, v *view) {
	tb.open(v.base + "/login?to=second-factor")
	tb.signIn(maud, maudPassword)
	tb.see("form[data-do=begin-totp], summary")
}

// reachSetUp shows the secret of a new app, and returns it.
func reachSetUp(tb *tab, v *view) (secret string) {
	reachFactorPage(tb, v)
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("form[data-do=begin-totp]").closest("details").open = true`),
		chromedp.SendKeys(chromedp.CSS("#begin-totp-password"), maudPassword))
	tb.click("form[data-do=begin-totp] button")
	tb.see("svg[data-qr]")
	return ask(tb, chromedp.Text(chromedp.CSS("[data-totp-secret]")))
}

// setUpApp sets up an app, and shows the recovery codes.
func setUpApp(tb *tab, v *view) (secret string) {
	secret = reachSetUp(tb, v)
	tb.do(chromedp.SendKeys(chromedp.CSS("#code"), appCode(tb.t, secret, time.Now())))
	tb.click("form[data-do=confirm-totp] button")
	tb.see("[data-recovery-code]")
	return secret
}

// reachSecondStep sets up an app, signs out, and signs in again up to the second step.
func reachSecondStep(tb *tab, v *view) (secret string) {
	secret = setUpApp(tb, v)
	tb.click("a[data-next]")
	tb.click(signOutForm + " button")
	tb.see(signInLink)
	tb.open(v.base + "/login?to=account")
	tb.signIn(maud, maudPassword)
	tb.see("form[data-do=second-factor]")
	return secret
}

// Promise (Guard §2, §3): in a browser an app is set up by its QR code's page and asked for at the next sign-in
func TestBrowserSecondFactor(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	s := startDev(t)
	s.createUser(maud, s.ready.Account, maudPassword)
	tb := newTab(t)
	secret := reachSecondStep(tb, &view{server: s})
	// The code of the set-up is spent; the next step's counts already.
	tb.do(chromedp.SendKeys(chromedp.CSS("#code"), appCode(t, secret, time.Now().Add(30*time.Second))), chromedp.KeyEvent("\r"))
	tb.see("section[data-second-factor=totp]")
}

// Promise (Guard §2, §3): a camera reads the QR code in both schemes: the same URI as the link
func TestTheQRCodeIsRead(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	needTool(t, "chromium", "chromium-browser")
	zbarimg := needTool(t, "zbarimg")
	s := startDev(t, "--instance-name", "Larkspur: Pay & Co")
	s.createUser(maud, s.ready.Account, maudPassword)
	tb := newTab(t)
	reachSetUp(tb, &view{server: s})
	uri := ask(tb, chromedp.Evaluate[string](`document.querySelector("a[data-otpauth]").href`))
	for _, scheme := range []string{"light", "dark"} {
		tb.scheme(scheme)
		file := filepath.Join(t.TempDir(), scheme+".png")
		must.Do(t, os.WriteFile(file, ask(tb, chromedp.FullScreenshot(100)), 0o600))
		read, err := exec.CommandContext(t.Context(), zbarimg, "--quiet", "--raw", file).Output()
		if err != nil || strings.TrimSpace(string(read)) != uri {
			t.Errorf("%s: the camera reads %q (%v), want %q", scheme, read, err, uri)
		}
	}
}
