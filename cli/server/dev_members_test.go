package server

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"tollhouse/handlers/dev"
	"tollhouse/store/eventlog"
	"tollhouse/store/moving"
	"tollhouse/store/storetest/must"
)

var update = flag.Bool("update", false, "write the members in docs/testing.md anew")

// TestTestingPageHasEveryMember holds the tables of docs/testing.md to the structs that seed
// lines and POST /_dev/tokens are read into.
//
// Promise (Testers, bad input): the guide has every member of seed lines and tokens; answers of the
// controls end with a newline; helpers without a binary name TOLLHOUSE_BIN
func TestTestingPageHasEveryMember(t *testing.T) {
	t.Parallel()
	holdTables(t, "testing.md", map[string]string{
		"| line | member | |\n|---|---|---|\n": memberRows(t, "client", moving.Client{}) + memberRows(t, "user", moving.User{}) + memberRows(t, "account", moving.Account{}) +
			memberRows(t, "resource", moving.Resource{}) + eventRow() + memberRows(t, "webhook", moving.Webhook{}) + "| `token` | | those of `/_dev/tokens`, above, and `access_token_sha256`, `refresh_token_sha256`, `created_at` as [an import](import.md) takes them |\n",
		"| member | of `/_dev/tokens` |\n|---|---|\n": strings.ReplaceAll(memberRows(t, "", dev.Token{}), "| `` ", ""),
	})
}

// TestImportPageHasEveryMember holds the table of docs/import.md to the structs of package moving.
func TestImportPageHasEveryMember(t *testing.T) {
	t.Parallel()
	of := map[string]any{"account": moving.Account{}, "client": moving.Client{}, "user": moving.User{}, "resource": moving.Resource{}, "webhook": moving.Webhook{}, "token": moving.Token{}}
	rows := ""
	for _, noun := range moving.Nouns() {
		if of[noun] != nil {
			rows += rowsOf(t, noun, of[noun], false)
		}
	}
	holdTables(t, "import.md", map[string]string{"| noun | member | |\n|---|---|---|\n": rows})
}

// holdTables holds the tables of a page, by their heads, to what the code says.
func holdTables(t *testing.T, name string, tables map[string]string) {
	t.Helper()
	page := filepath.Join("..", "..", "docs", name)
	text := string(must.Get(os.ReadFile(page))(t))
	for head, rows := range tables {
		found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(head) + `(\|.*\n)*`).FindString(text)
		switch {
		case found == "":
			t.Errorf("%s has no table with the head\n%s", page, head)
		case *update:
			text = strings.Replace(text, found, head+rows, 1)
			must.Do(t, os.WriteFile(page, []byte(text), 0o644))
		case found != head+rows:
			t.Errorf("%s has\n%s\nand the code reads\n%s\ngo test ./cli/server -run Member -update writes it anew", page, found, head+rows)
		}
	}
}

// memberRows returns a row for each member of a struct that a seed or a control takes.
func memberRows(t *testing.T, line string, of any) string { return rowsOf(t, line, of, true) }

func rowsOf(t *testing.T, line string, of any, isSeed bool) string {
	var b strings.Builder
	for field := range reflect.TypeOf(of).Fields() {
		name := moving.MemberName(field)
		does := field.Tag.Get("does")
		if isSeed {
			does = cmp.Or(field.Tag.Get("dev"), does)
		}
		if !isSeed && field.Tag.Get("only") != "" {
			continue
		}
		if does == "" {
			t.Errorf("the member %s of a %s says nothing about itself", name, line)
		}
		if kind := field.Type; kind.Kind() == reflect.Bool {
			does = "true or false: " + does
		} else if kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.String {
			does = "a list: " + does
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", line, name, does)
	}
	return b.String()
}

func eventRow() string {
	names := strings.Join(eventlog.EventMembers(), "`, `")
	return "| `event` | `" + strings.Replace(names, "`owner`", "`account`", 1) + "` | those of [a line of an import](import.md#a-line), whose `owner` may be called `account`; the first account if missing. A file needs `createdAt` |\n"
}
