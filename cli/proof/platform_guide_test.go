package proof

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// mailbox is a mail server that keeps one message.
type mailbox struct {
	at   string
	mail chan string
}

func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	m := &mailbox{l.Addr().String(), make(chan string, 1)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go m.receive(c)
		}
	}()
	return m
}

// receive speaks as much SMTP (RFC 5321) as curl needs.
func (m *mailbox) receive(c net.Conn) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	fmt.Fprint(c, "220 mail\r\n")
	for lines.Scan() {
		switch verb, _, _ := strings.Cut(lines.Text(), " "); verb {
		case "DATA":
			fmt.Fprint(c, "354 go on\r\n")
			var text strings.Builder
			for lines.Scan() && lines.Text() != "." {
				text.WriteString(lines.Text() + "\n")
			}
			m.mail <- text.String()
			fmt.Fprint(c, "250 kept\r\n")
		case "QUIT":
			fmt.Fprint(c, "221 bye\r\n")
			return
		default:
			fmt.Fprint(c, "250 ok\r\n")
		}
	}
}

// platformGuide runs the examples of docs/platform.md in one shell, as a reader who pastes them
// does. A request that is refused ends it.
type platformGuide struct {
	*testing.T
	s      *server
	dir    string
	blocks []string
	ran    map[string]bool
	mail   *mailbox
}

// run runs blocks and returns what they print.
func (g *platformGuide) run(blocks ...string) string {
	g.Helper()
	for _, b := range blocks {
		g.ran[b] = true
	}
	const strict = `curl() { command curl --fail-with-body "$@"; }` + "\n"
	return shell(g.T, needTool(g.T, "bash"), g.dir, strict+g.replaced(strings.Join(blocks, "")))
}

// replaced says in the words of this machine what the page says of any.
func (g *platformGuide) replaced(text string) string {
	where := g.s.where
	if where == nil {
		where = []string{"--admin-socket", g.s.ready.AdminSocket}
	}
	var quoted []string
	for _, arg := range where {
		if !strings.HasPrefix(arg, "--") {
			arg = "'" + arg + "'" // no directory of a test has a quote in its name
		}
		quoted = append(quoted, arg)
	}
	return strings.NewReplacer("https://pay.example", g.s.base, "smtp://mail.example", "smtp://"+g.mail.at,
		"--data /var/lib/tollhouse", strings.Join(quoted, " "), "tollhouse client", "'"+program(g.T)+"' client").Replace(text)
}

// block returns the one block that contains words.
func (g *platformGuide) block(words string) string {
	g.Helper()
	for _, b := range g.blocks {
		if strings.Contains(b, words) {
			return b
		}
	}
	g.Fatalf("docs/platform.md has no example with %q", words)
	return ""
}

// Promise (Platform §8, §16): docs/platform.md signs a merchant up in five curl lines, and shows the
// way out; each example runs, on a directory and on two servers
func TestPlatformGuide(t *testing.T) {
	t.Parallel()
	needTool(t, "curl")
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "platform.md")))(t)
	var blocks []string
	for _, found := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, found[1])
	}
	eachSite(t, func(t *testing.T, p site) {
		s := p.serve(t, "--public-url", "http://127.0.0.1") // browsers come to both
		g := &platformGuide{t, s, t.TempDir(), blocks, map[string]bool{}, newMailbox(t)}
		create, token := g.block("--name Backend"), g.block("json()")
		signUp := []string{g.block("accounts/acct_larkspur -H"), g.block("api/platform/users -H"), g.block("smtp://"), g.block("clients/larkspur-books -H \"$AUTH\" -H"), g.block("resources/customer/cus_1")}
		printed := g.run(append([]string{create, token}, signUp...)...)
		if !strings.Contains(printed, `"type":"customer.created"`) || !strings.Contains(printed, `"source":"Backend"`) {
			t.Errorf("the sign-up prints %s, want the first event", printed)
		}
		g.isInvited()
		if printed := g.run(token, g.block("Tollhouse-Source")); !strings.Contains(printed, `"city":"Dunmere"`) {
			t.Errorf("a change for an account prints %s", printed)
		}
		if printed := g.run(token, g.block("-d account=acct_larkspur")); !strings.Contains(printed, `"scope":"events:read"`) {
			t.Errorf("a token for one account: %s", printed)
		}
		printed = g.run(token, g.block("accounts/acct_larkspur/disable"))
		if !strings.Contains(printed, `"disabled":true`) {
			t.Errorf("the way out prints %s", printed)
		}
		if p := g.signIn(); p.url.Path != "/login" {
			t.Errorf("a user of a disabled account is at %s: %s", p.url, p.body)
		}
		g.run(token, g.block("--name Eraser"))
		if left := string(g.s.run("account", "list", "--json")) + string(g.s.run("client", "list", "--json")); strings.Contains(left, "larkspur") {
			t.Errorf("after the way out there are %s", left)
		}
		for _, b := range blocks {
			if !g.ran[b] {
				t.Errorf("not run: %s", b)
			}
		}
	})
}

// isInvited follows the mail: the user sets a password with the code, and signs in.
func (g *platformGuide) isInvited() {
	g.Helper()
	mail := <-g.mail.mail
	found := regexp.MustCompile(`(?s)at (http\S+)\nwith the user name odile and the code (\S+)\n`).FindStringSubmatch(mail)
	if found == nil || strings.Contains(found[1], found[2]) {
		g.Fatalf("the mail is %q, want an address and a code", mail)
	}
	v := newVisitor(g.T)
	page := v.submit(v.open(g.s.base+"/new-password"), "username", "odile", "code", found[2], "new_password", odilePassword, "repeat_password", odilePassword)
	if !strings.Contains(page.body, "Your password is set") {
		g.Errorf("after the code: %d %s", page.status, page.body)
	}
	if p := g.signIn(); p.url.Path == "/login" {
		g.Errorf("the user is not signed in: %s", p.body)
	}
}

func (g *platformGuide) signIn() screen {
	g.Helper()
	v := newVisitor(g.T)
	return v.submit(v.open(g.s.base+"/login"), "username", "odile", "password", odilePassword)
}
