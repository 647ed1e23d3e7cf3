package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/moving"
	"tollhouse/store/secret"
)

func (p *program) importCommand() *cobra.Command {
	var onError, try, passwordFile string
	var dryRun, update bool
	var allow []string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "bring in users, clients, tokens and history from a file of JSON lines (- for standard input, gzip accepted)",
		Long: `Bring in the accounts, clients, users, resources, events, webhooks and tokens of another
system, or what export wrote, from a file with one record per line.

It creates, and changes nothing that exists, so the same file can be imported again; it
shows which lines differ from what exists. --update also replaces users and clients that
an import made and that nobody has used or changed since. The import stops at the first
refused line, unless --on-error skip is given, and keeps what it has imported; --dry-run
lists every line that would be refused. If any line is refused, it exits with 65.

--try USERNAME asks for that user's password and reports whether the line's hash accepts
it: 0 if it does, 1 if not, 3 without such a user. It stores nothing.`,
		Args: operands("a file"),
	}
	flags := c.Flags()
	flags.BoolVar(&dryRun, "dry-run", false, "show which lines would be refused, and import nothing")
	flags.StringVar(&onError, "on-error", "stop", "what to do at a refused line: stop, or skip it")
	flags.BoolVar(&update, "update", false, "replace imported users and clients that are unused and unchanged")
	flags.StringArrayVar(&allow, "allow", nil, "take lines that are refused otherwise: "+strings.Join(store.ImportAllows(), ", ")+" (`name`; may be given several times, or with commas)")
	flags.StringVar(&try, "try", "", "check the password of this `user` against the file")
	nameVariables(flags, "") // what is allowed is said on the command line
	flags.BoolVar(&p.openKinds, "open-kinds", false, "allow any fields in customers, accounts, transactions and invoices")
	p.addAllowFlag(c)
	flags.StringVar(&passwordFile, "password-file", "", "with --try: `file` with the password, or - for standard input (default: ask on the terminal)")
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		if onError != "stop" && onError != "skip" {
			return term.Usage("give stop, or skip to continue after refused lines", "--on-error must be stop or skip, not %q", onError)
		}
		allow = strings.Split(strings.Join(allow, ","), ",")
		if allow[0] == "" {
			allow = nil
		}
		for _, name := range allow {
			if !slices.Contains(store.ImportAllows(), name) {
				return term.Usage("give "+strings.Join(store.ImportAllows(), ", "), "--allow has no %q", name)
			}
		}
		if passwordFile == "-" && args[0] == "-" {
			return term.Usage("give one of them as a file", "the lines and the password cannot both come from standard input")
		}
		in, closeFile, err := p.openFile(args[0], "lines")
		if err != nil {
			return err
		}
		defer closeFile()
		if c.Flags().Changed("try") {
			return p.tryPassword(ctx, in, try, passwordFile, store.ImportOptions{Allow: allow})
		}
		query := url.Values{"on-error": {onError}, "dry-run": {strconv.FormatBool(dryRun)}, "update": {strconv.FormatBool(update)}, "allow": allow}
		need := makesData
		if dryRun {
			need = triesData
		}
		return p.manage(ctx, "import", need, func(a *adminClient) error {
			query.Set("without-key", strconv.FormatBool(a.keyless))
			m := mover{program: p, dryRun: dryRun, stops: onError == "stop", share: shareRead(&in)}
			m.in = &lineCounter{r: in}
			return m.run(ctx, a, query)
		})
	})
	return c
}

// mover is one run of import.
type mover struct {
	*program
	dryRun, stops bool
	in            *lineCounter
	share         func(importAnswer) float64 // of the file that was read; nil when not known
}

// movingLine is what the answer says about one line, or of an import that broke off.
type movingLine struct {
	Line        int64    `json:"line"`
	Differs     []string `json:"differs"`
	Error       string   `json:"error"`
	Param       string   `json:"param"`
	Description string   `json:"error_description"`
}

// run sends the file and follows the answer, which begins before the last of it is sent.
func (m *mover) run(ctx context.Context, a *adminClient, query url.Values) error {
	answer, err := a.send(ctx, "POST", "/admin/import?"+query.Encode(), "application/x-ndjson", term.Interruptible(ctx, m.in))
	if err != nil {
		return m.broke(err)
	}
	defer answer.Body.Close()
	progress := m.NewProgress("importing")
	defer progress.Clear()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, answerSizeMax)
	var about movingLine
	var counts admin.MovingCounts
	for lines.Scan() {
		about, counts = movingLine{}, admin.MovingCounts{}
		err := json.Unmarshal(lines.Bytes(), &about)
		if err == nil && about.Line == 0 && about.Error == "" {
			err = json.Unmarshal(lines.Bytes(), &counts)
		}
		if err != nil {
			return term.Fail(term.ExitFailed, "use the same version of tollhouse as the server", "cannot read the server's answer: %w", err)
		}
		if counts.Progress {
			share := 0.0
			if m.share != nil {
				share = m.share(importAnswer{})
			}
			progress.Show(share, "%s, %.0f lines/s", term.Count(int64(counts.Lines), "line", "lines"), progress.Rate(float64(counts.Lines)))
			continue
		}
		progress.Clear()
		if about.Line > 0 || counts.Summary && m.JSON {
			if err := m.show(about, lines.Bytes()); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return m.broke(brokenAnswer(err))
	}
	if !counts.Summary {
		return m.broke(movingEnded(about))
	}
	return m.sumUp(counts)
}

// broke prefers an error in reading the file over err.
func (m *mover) broke(err error) error {
	if unread := m.in.err.Load(); unread != nil {
		return term.Fail(term.ExitBadData, "what was imported is kept; fix the file and import it again", "cannot read the whole file: %w", *unread)
	}
	return err
}

func movingEnded(last movingLine) error {
	const hint = "what was imported is kept; run it again"
	if last.Description == "" {
		return term.Fail(term.ExitUnreachable, hint, "the server ended the import early")
	}
	code := term.ExitFailed
	if last.Error == web.DiskFull {
		code = term.ExitIO
	}
	return term.Fail(code, hint, "the import stopped early: %s", asClause(last.Description))
}

// show prints what is to be said of a line, or with --json the summary as it came.
func (m *mover) show(l movingLine, text []byte) error {
	switch {
	case m.JSON:
		return m.PrintJSON(json.RawMessage(text))
	case l.Error == "":
		m.Note("line %d: exists and differs in %s", l.Line, strings.Join(l.Differs, ", "))
		return nil
	}
	param := ""
	if l.Param != "" && !strings.HasPrefix(l.Description, l.Param+" ") {
		param = l.Param + ": "
	}
	fmt.Fprintf(m.Err, "tollhouse: line %d: %s: %s%s\n", l.Line, term.Visible(l.Error), term.Visible(param), term.Visible(asClause(l.Description)))
	return nil
}

// sumUp prints the summary. It fails if a line was refused.
func (m *mover) sumUp(s admin.MovingCounts) error {
	if s.Lines == 0 {
		m.warnEmpty()
	}
	if !m.JSON {
		m.printSummary(s)
	}
	if s.Errors == 0 {
		return nil
	}
	hint := "fix the lines and import the file again: what was imported is kept and not imported twice"
	switch {
	case s.Unreadable && m.dryRun:
		hint = "fix the file; nothing was imported"
	case s.Unreadable:
		hint = "fix the file and import it again: what was imported is kept and not imported twice"
	case m.dryRun:
		hint = "fix the lines; nothing was imported"
	case m.stops:
		hint = "fix the line and import the file again; or skip refused lines with --on-error skip"
	}
	return term.Fail(term.ExitBadData, hint, "%s refused", term.Count(int64(s.Errors), "line was", "lines were"))
}

func (p *program) warnEmpty() {
	p.Note("warning: the file is empty: check that the command that wrote it has not failed")
}

func (m *mover) printSummary(s admin.MovingCounts) {
	created := "created"
	if m.dryRun {
		created = "would be created"
	}
	out := func(format string, args ...any) { fmt.Fprintf(m.Out, format+"\n", args...) }
	out("%s: %d %s, %d unchanged, %d updated, %d refused", term.Count(int64(s.Lines), "line", "lines"), s.Created.All(), created, s.Unchanged, s.Updated, s.Errors)
	for _, of := range []struct {
		n    int
		text string
	}{
		{s.Created.Accounts, "accounts"}, {s.Created.Clients, "clients"}, {s.Created.Users, "users"}, {s.Created.Resources, "resources"},
		{s.Created.Events, "events"}, {s.Created.Webhooks, "webhooks"}, {s.Created.Tokens, "tokens"},
		{s.Expired, "tokens left out, because they were over"}, {s.Cut, "tokens that end earlier than in the old system"},
		{s.WithoutPassword, "users without a password, who wait for a code"}, {s.Privileged, "operators, platform clients and clients that may introspect"},
	} {
		if of.n > 0 {
			out("  %s: %d", of.text, of.n)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Hashes)) {
		out("  passwords, %s: %d", kind, s.Hashes[kind])
	}
}

// tryPassword checks the password of a user against the first line of the file that has the user.
func (p *program) tryPassword(ctx context.Context, in io.Reader, name, passwordFile string, o store.ImportOptions) error {
	canonical, err := store.CanonicalUsername(name)
	if err != nil {
		return err
	}
	line, u, err := findUser(in, canonical)
	if err != nil {
		return err
	}
	if u == nil {
		return term.Fail(term.ExitNotFound, "check the spelling", "the file has no user %q", web.ShownName(name))
	}
	if u.Password == nil && u.PasswordHash.IsZero() {
		return term.Fail(term.ExitFailed, "the user waits for a code: tollhouse user code", "line %d: the user has neither a hash nor a password", line)
	}
	password, err := p.readTried(ctx, passwordFile)
	if err != nil {
		return err
	}
	accepted, _, err := o.Tries(ctx, secret.NewHasher(), u, password)
	var refused *moving.Error
	switch {
	case errors.As(err, &refused):
		return term.Fail(term.ExitBadData, refused.Hint, "line %d: %s", line, refused.Reason)
	case err != nil:
		return err
	case !accepted:
		return term.Fail(term.ExitFailed, "check what the old system hashes, and with which settings", "line %d: the hash does not accept this password", line)
	}
	return p.Done(map[string]any{"line": line, "accepted": true}, "line %d: the hash accepts this password", line)
}

func (p *program) readTried(ctx context.Context, file string) (string, error) {
	switch {
	case file != "":
		return p.ReadSecret("password", "--password-file", file, secret.PasswordSizeMax)
	case !term.IsTerminal(p.In):
		return "", term.Usage("give --password-file FILE, or --password-file - to read standard input", "cannot ask for a password without a terminal")
	}
	return p.AskHidden(ctx, "password", "Password: ")
}

// findUser returns the first line of a user with that name, or nil. Other lines may be wrong.
func findUser(in io.Reader, canonical string) (number int, u *moving.User, err error) {
	lines, err := moving.Open(in)
	if err == nil {
		if format := lines.Format(); format != "" {
			err = errors.New("it is " + format)
		}
	}
	for number = 1; err == nil; number++ {
		var text []byte
		text, _, err = lines.Next()
		if errors.Is(err, moving.ErrLongLine) {
			err = nil
			continue
		}
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return 0, nil, nil
		}
		r, wrong := moving.Parse(text, false)
		found, isUser := r.(*moving.User)
		if wrong != nil || !isUser {
			continue
		}
		if name, wrong := store.CanonicalUsername(found.Username); wrong == nil && name == canonical {
			return number, found, nil
		}
	}
	return 0, nil, term.Fail(term.ExitBadData, "check the file", "cannot read the whole file: %w", err)
}
