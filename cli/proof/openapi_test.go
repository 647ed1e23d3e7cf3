package proof

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestOpenAPI checks the description that the binary serves and prints with validators that
// are not ours, and with the rules that Redocly recommends, none of them switched off.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := startDev(t)
	served := fetchDocument(t, s.ready.URL+"/openapi.json")
	t.Run("openapi_printed_is_what_is_served", func(t *testing.T) {
		if printed := command(t, "", "print", "openapi", "--public-url", s.ready.URL); !bytes.Equal(printed, served) {
			t.Errorf("print openapi wrote %d bytes, want the %d that are served", len(printed), len(served))
		}
	})
	t.Run("openapi_is_valid", func(t *testing.T) {
		if verdict := judgeOpenAPI(t, served); !verdict.Valid || verdict.Version != "3.1" {
			t.Errorf("the document is not OpenAPI 3.1: %s", verdict.Errors)
		}
	})
	t.Run("openapi_without_a_server_is_valid", func(t *testing.T) {
		if verdict := judgeOpenAPI(t, command(t, "", "print", "openapi")); !verdict.Valid {
			t.Errorf("the document is not OpenAPI 3.1: %s", verdict.Errors)
		}
	})
	t.Run("openapi_judge_can_say_no", func(t *testing.T) {
		if judgeOpenAPI(t, bytes.ReplaceAll(served, []byte(`"responses"`), []byte(`"respones"`))).Valid {
			t.Error("a document whose operations have no responses is valid")
		}
	})
	t.Run("redocly_finds_nothing", func(t *testing.T) {
		if found := lint(t, served); found.Totals.Errors+found.Totals.Warnings+found.Totals.Ignored > 0 {
			t.Errorf("redocly lint found %+v", found)
		}
	})
	t.Run("redocly_finds_nothing_without_a_server", func(t *testing.T) {
		if found := lint(t, command(t, "", "print", "openapi")); found.Totals.Errors+found.Totals.Warnings+found.Totals.Ignored > 0 {
			t.Errorf("redocly lint found %+v", found)
		}
	})
	t.Run("redocly_can_say_no", func(t *testing.T) {
		if found := lint(t, bytes.ReplaceAll(served, []byte(`"summary":"Check whether`), []byte(`"summery":"Check whether`))); found.Totals.Errors == 0 {
			t.Errorf("of a misspelt member redocly lint found %+v, want an error", found)
		}
	})
}

func fetchDocument(t testing.TB, url string) []byte {
	t.Helper()
	res := must.Get(http.Get(url))(t)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %d, %v", url, res.StatusCode, err)
	}
	return body
}

// verdict is what the judge says of a document.
type verdict struct {
	Valid   bool
	Version string
	Errors  json.RawMessage
}

// judgeOpenAPI asks @seriousme/openapi-schema-validator, which goes by the
// schemas of the OpenAPI Initiative.
func judgeOpenAPI(t testing.TB, document []byte) (v verdict) {
	t.Helper()
	cmd := nodeProgram(t, "openapi.mjs")
	cmd.Stdin = bytes.NewReader(document)
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("node openapi.mjs: %v", err)
	}
	decode(t, said, &v)
	return v
}

// findings are what redocly lint reports.
type findings struct {
	Totals   struct{ Errors, Warnings, Ignored int }
	Problems []struct {
		RuleID, Severity, Message string
		Location                  []struct{ Pointer string }
	}
}

func lint(t *testing.T, document []byte) (found findings) {
	t.Helper()
	dir := nodeDir(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "openapi.json"), document, 0o644))
	cmd := nodeIn(t, dir, "node_modules/.bin/redocly", "lint", "openapi.json", "--extends=recommended", "--format=json")
	cmd.Env = append(cmd.Env, "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	cmd.Stderr = nil            // notices for people
	report, err := cmd.Output() // its exit code says that there are errors
	if json.Unmarshal(report, &found) != nil {
		t.Fatalf("redocly lint: %v\n%s", err, report)
	}
	return found
}
