package handlers

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// A dry run lists every line that would be refused, and quotes what is wrong with it.
//
// Promise (§3.3): an import reports progress, the first 100 refused lines with numbers and offsets,
// then a summary; an import without its end counts as interrupted; a dry run lists every refused
// line and records nothing
func TestADryRunListsEveryRefusedLine(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const lines = 250
	var file strings.Builder
	for i := range lines {
		fmt.Fprintf(&file, `{"type":"a.b","resource":"p%d","eventData":{"object":{}},"createdAt":"day %d"}`+"\n", i, i)
		file.WriteString(line("") + "\n")
	}
	answer := a.importFrom(strings.NewReader(file.String()), "&dry-run=true").answerLines(t)
	if len(answer) != lines+1 {
		t.Fatalf("the answer has %d lines, want %d and the summary", len(answer), lines)
	}
	for i, refused := range answer[:lines] {
		if want := fmt.Sprintf(`"day %d"`, i); refused["line"] != float64(2*i+1) || !strings.Contains(refused["error_description"].(string), want) {
			t.Errorf("refused = %v, want line %d with %s", refused, 2*i+1, want)
		}
	}
	if summary := answer[lines]; summary["errors"] != float64(lines) || summary["recorded"] != float64(lines) {
		t.Errorf("summary = %v", summary)
	}
	if _, err := a.FindAccount(t.Context(), "acct_a"); err == nil {
		t.Error("the dry run has made the account")
	}
}

// A refused value is quoted, escaped and cut short, but never a card number or a secret.
//
// Promise (§3.3): a refused value is quoted, never a card number or a secret; zstd, bzip2, xz, zip
// and UTF-16 are named; a cut or damaged gzip file is read up to there and ends with the summary
func TestARefusedValueIsQuoted(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	long := strings.Repeat("x", 70)
	for value, want := range map[string]string{
		`"type":"Customer Created"`: `not \"Customer Created\"`, `"type":17`: `not 17`, `"type":null`: `not null`, `"resource":"a\u001b[2Jb"`: `not \"a\\x1b[2Jb\"`,
		`"id":"` + long + `"`: `not \"` + long[:40], `"owner":"acct_b"`: `it is \"acct_b\"`, `"createdAt":1.5`: `not 1.5`, `"createdAt":99999999999999999`: `it is 99999999999999999`,
		`"eventData":{"object":{"id":"p2"}}`: `not \"p2\"`,
		`"id":"4242 4242 4242 4242"`:         "", `"id":"whsec_MfKQ9r8GKYqrTwjU="`: "", `"type":4242424242424242`: "", `"id":"Bearer abc.def"`: "", `"4242424242424242":1`: "",
	} {
		members := []string{`"type":"a.b"`, `"resource":"p1"`, `"eventData":{"object":{}}`, `"createdAt":1773000000`}
		name, given, _ := strings.Cut(value, ":")
		text := value
		for _, m := range members {
			if !strings.HasPrefix(m, name) {
				text += "," + m
			}
		}
		w := a.importFrom(strings.NewReader("{"+text+"}"), "")
		refused := strings.SplitN(w.Body.String(), "\n", 2)[0]
		if want != "" && !strings.Contains(refused, want) {
			t.Errorf("%s is refused as %s, want %s", value, refused, want)
		}
		if secret := strings.Trim(given, `"`); want == "" && (len(secret) > 1 && strings.Contains(refused, secret) || strings.Contains(refused, "4242") || !strings.Contains(refused, "error")) {
			t.Errorf("%s is repeated: %s", value, refused)
		}
	}
}

// What is no file of JSON lines is named, and a gzip file that is cut off or damaged is
// read up to there. The answer ends with the summary.
//
// Promise (§3.3): a refused value is quoted, never a card number or a secret; zstd, bzip2, xz, zip
// and UTF-16 are named; a cut or damaged gzip file is read up to there and ends with the summary
func TestImportNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	good := line(`,"id":"one"`) + "\n" + line(`,"id":"two"`) + "\n"
	packed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		must.Get(z.Write([]byte(text)))(t)
		must.Do(t, z.Close())
		return b.String()
	}
	utf16Text := func(text string) string {
		var b []byte
		for _, c := range []byte(text) {
			b = append(b, c, 0)
		}
		return string(b)
	}
	random := make([]byte, 20_000)
	must.Get(rand.NewChaCha8([32]byte{}).Read(random))(t)
	long := good + line(`,"id":"three","source":"`+hex.EncodeToString(random[:100])+`"`) + "\n" + hex.EncodeToString(random)
	tests := []struct {
		name, file, encoding string
		recorded             float64
		says                 string
	}{
		{"zstd", "\x28\xb5\x2f\xfd\x04\x00", "", 0, "zstd"},
		{"bzip2", "BZh91AY&SY", "", 0, "bzip2"},
		{"xz", "\xfd7zXZ\x00\x00", "", 0, "xz"},
		{"zip", "PK\x03\x04\x14", "", 0, "zip"},
		{"gzip_without_saying_so", packed(good), "", 0, "Content-Encoding"},
		{"utf_16_with_a_mark", "\xff\xfe" + utf16Text(good), "", 0, "UTF-16"},
		{"utf_16_without_a_mark", utf16Text(good), "", 0, "UTF-16"},
		{"zstd_within_gzip", packed("\x28\xb5\x2f\xfd\x04\x00"), "gzip", 0, "zstd"},
		{"a_cut_gzip", packed(long)[:len(packed(long))-5000], "gzip", 3, "cut off or damaged"},
		{"a_gzip_without_its_last_bytes", packed(good)[:len(packed(good))-8], "gzip", 2, "cut off or damaged"},
		{"a_gzip_with_something_after_it", packed(good) + "garbage at the end", "gzip", 2, "cut off or damaged"},
		{"a_gzip_with_another_checksum", packed(good)[:len(packed(good))-8] + "\x00\x00\x00\x00" + packed(good)[len(packed(good))-4:], "gzip", 2, "cut off or damaged"},
		{"a_list_of_events", "[\n" + good + "]", "", 0, "one event per line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := parallelAPI(t)
			var headers []string
			if tt.encoding != "" {
				headers = []string{"Content-Encoding", tt.encoding}
			}
			w := a.importFrom(strings.NewReader(tt.file), "", headers...)
			answer := w.answerLines(t)
			summary, refused := answer[len(answer)-1], answer[0]
			if summary["summary"] != true || summary["errors"] != 1.0 || summary["recorded"] != tt.recorded {
				t.Errorf("summary = %v, want %v recorded and one error", summary, tt.recorded)
			}
			if text, _ := refused["error_description"].(string); !strings.Contains(text, tt.says) || refused["line"] != tt.recorded+1 {
				t.Errorf("refused = %v, want %q on line %v", refused, tt.says, tt.recorded+1)
			}
		})
	}
}

// Promise (Platform §9): progress, the first 100 refused lines and the first 100 that differ stream back, then
// the summary; a dry run lists all that it refuses; import and export are not available over the network
func TestAnImportReportsABoundedPart(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	const many, reported = 150, 100
	move := func(query, file string) (kinds map[string]int, last map[string]any) {
		t.Helper()
		kinds = map[string]int{}
		for _, line := range a.admin(http.MethodPost, "/admin/import"+query, strings.NewReader(file), "Content-Type", "application/x-ndjson").answerLines(t) {
			for _, kind := range []string{"progress", "error", "differs", "summary"} {
				if _, is := line[kind]; is {
					kinds[kind]++
				}
			}
			last = line
		}
		return kinds, last
	}
	var users, renamed, wrong strings.Builder
	for i := range many {
		fmt.Fprintf(&users, `{"user":{"username":"user%d","account":"acct_a"}}`+"\n", i)
		fmt.Fprintf(&renamed, `{"user":{"username":"USER%d","account":"acct_a"}}`+"\n", i)
		fmt.Fprintf(&wrong, `{"user":{"usernam":"user%d"}}`+"\n", i)
	}
	if kinds, last := move("", `{"account":{"account":"acct_a"}}`+"\n"+users.String()); kinds["summary"] != 1 || last["errors"] != 0.0 {
		t.Fatalf("%v, %v", kinds, last)
	}
	for _, tt := range []struct {
		query, file                string
		refused, differ, unchanged int
	}{
		{"?on-error=skip", wrong.String(), reported, 0, 0},
		{"?dry-run=true", wrong.String(), many, 0, 0},
		{"", wrong.String(), 1, 0, 0},
		{"", renamed.String(), 0, reported, many},
	} {
		kinds, last := move(tt.query, tt.file)
		if kinds["error"] != tt.refused || kinds["differs"] != tt.differ || last["summary"] != true || last["unchanged"] != float64(tt.unchanged) {
			t.Errorf("%s%.40q: %v, %v", tt.query, tt.file, kinds, last)
		}
	}
	if kinds, last := move("", strings.Repeat("\n", 2*progressOfImport)+users.String()); kinds["progress"] == 0 || last["empty_lines"] != 2.0*progressOfImport || last["unchanged"] != float64(many) {
		t.Errorf("of a long file: %v, %v", kinds, last)
	}
	_, token := a.acting(t)
	for _, path := range []string{"/admin/import", "/admin/export", "/api/platform/import", "/api/platform/export"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if w := a.request(method, path, token, strings.NewReader(users.String()), "Content-Type", "application/x-ndjson"); w.Code != http.StatusNotFound {
				t.Errorf("%s %s over the network: %d", method, path, w.Code)
			}
		}
	}
}

const progressOfImport = 10_000 // lines between two reports
