package proof

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"tollhouse/store/storetest/must"
)

// verifyCase is a request for the functions in docs/webhooks.md.
type verifyCase struct {
	Name      string `json:"name"`
	Secret    string `json:"secret"`
	ID        string `json:"id"`
	At        string `json:"at"`
	Signature string `json:"signature"`
	Body      string `json:"body"`
	Want      bool   `json:"want"`
}

// TestWebhookVerifyExamples runs the functions of docs/webhooks.md that verify a
// signature. The right one was computed by the library of Standard Webhooks.
func TestWebhookVerifyExamples(t *testing.T) {
	t.Parallel()
	answer := must.Get(os.ReadFile(filepath.Join("..", "..", "handlers", "testdata", "events", "1_retrieve.http")))(t)
	_, body, _ := bytes.Cut(answer, []byte("\n\n"))
	right := verifyCase{
		Name: "right", Secret: "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", ID: "evt_01kk9kgbjj00023m5qehe9m3gk", At: "1773070201",
		Signature: "v1,VN6iIRyNJ0c7jv4OZeA9OhGSOzgmLfoAWk9UXUrXeqs=", Body: string(bytes.TrimSuffix(body, []byte("\n"))), Want: true,
	}
	cases := []verifyCase{right}
	change := func(name string, want bool, edit func(*verifyCase)) {
		c := right
		c.Name, c.Want = name, want
		edit(&c)
		cases = append(cases, c)
	}
	change("the second of two signatures", true, func(c *verifyCase) {
		c.Signature = "v1,AAAAIRyNJ0c7jv4OZeA9OhGSOzgmLfoAWk9UXUrXeqs= " + c.Signature
	})
	change("another body", false, func(c *verifyCase) { c.Body += " " })
	change("another id", false, func(c *verifyCase) { c.ID += "a" })
	change("another secret", false, func(c *verifyCase) { c.Secret = "whsec_AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" })
	change("an old timestamp", false, func(c *verifyCase) { c.At = "1773069900" })
	change("no timestamp", false, func(c *verifyCase) { c.At = "" })
	change("no signature", false, func(c *verifyCase) { c.Signature = "" })
	change("another version", false, func(c *verifyCase) { c.Signature = "v2" + c.Signature[2:] })
	input := must.Get(json.Marshal(cases))(t)
	page := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "webhooks.md")))(t)
	block := func(t *testing.T, language string) string {
		t.Helper()
		found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(page)
		if found == nil {
			t.Fatalf("docs/webhooks.md has no %s block", language)
		}
		return string(found[1])
	}
	const now = "1773070205"

	for name, p := range map[string]struct {
		language, file, before, after string
		run                           []string
	}{
		"node": {
			"js", "verify.mjs", "", `
import { readFileSync } from "node:fs";
for (const c of JSON.parse(readFileSync("cases.json"))) {
  const headers = { "webhook-id": c.id, "webhook-timestamp": c.at, "webhook-signature": c.signature };
  if (verify(c.secret, headers, Buffer.from(c.body), ` + now + `) !== c.want) console.log(c.name);
}
`, []string{"node", "verify.mjs"},
		},
		"python": {
			"python", "verify.py", "", `
import json
for c in json.load(open("cases.json")):
    headers = {"webhook-id": c["id"], "webhook-timestamp": c["at"], "webhook-signature": c["signature"]}
    if verify(c["secret"], headers, c["body"].encode(), ` + now + `) != c["want"]:
        print(c["name"])
`, []string{"python3", "verify.py"},
		},
		"go": {
			"go", "verify.go", `package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

`, `
func main() {
	var cases []struct {
		Name, Secret, ID, At, Signature, Body string
		Want                                  bool
	}
	text, err := os.ReadFile("cases.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range cases {
		h := http.Header{}
		h.Set("webhook-id", c.ID)
		h.Set("webhook-timestamp", c.At)
		h.Set("webhook-signature", c.Signature)
		if Verify(c.Secret, h, []byte(c.Body), time.Unix(` + now + `, 0)) != c.Want {
			fmt.Println(c.Name)
		}
	}
}
`, []string{"go", "run", "verify.go"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool, dir := needTool(t, p.run[0]), t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(dir, "cases.json"), input, 0o600))
			must.Do(t, os.WriteFile(filepath.Join(dir, p.file), []byte(p.before+block(t, p.language)+p.after), 0o600))
			cmd := exec.CommandContext(t.Context(), tool, p.run[1:]...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("these requests are judged wrongly, %v:\n%s", err, out)
			}
		})
	}
}
