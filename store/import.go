package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// What an import takes only if the operator allows it by name.
const (
	AllowPrivileged    = "privileged" // operators, platform clients, clients that may introspect
	AllowDigest        = "digest"     // password hashes that are fast to guess
	AllowUnsalted      = "unsalted"   // those without a salt
	AllowPlain         = "plain"      // passwords themselves
	AllowShortSecrets  = "short-secrets"
	AllowHTTPRedirects = "http-redirects"
)

// ImportAllows returns all names that an import may be allowed.
func ImportAllows() []string {
	return []string{AllowPrivileged, AllowDigest, AllowUnsalted, AllowPlain, AllowShortSecrets, AllowHTTPRedirects}
}

// ImportOptions configure an import of lines.
type ImportOptions struct {
	SkipErrors bool     // continue after a refused line; otherwise stop before it
	DryRun     bool     // check every line, also after a refused one, and change nothing
	Update     bool     // replace users and clients that an import made and nobody used or changed since
	Allow      []string // names of ImportAllows
	// Keyless is for a store without its server key, with which secrets of webhook endpoints
	// are sealed.
	Keyless bool
	// ParseURL checks the URL of a webhook endpoint and returns its normal form.
	ParseURL func(string) (string, error)
	// Report gets the refused lines, and those that differ from what exists, in their order.
	Report func(ImportReport)
}

// ImportReport is about one line: why it was refused, or what differs from what exists.
type ImportReport struct {
	Line    int // 1 is the first
	Offset  int64
	Refused *moving.Error // or nil
	Differs []string      // members
}

// The codes of lines that are refused because of what exists.
const (
	importUnknownAccount = "unknown_account"
	importConflict       = "conflict"
	importInvalidHash    = "invalid_hash"
	importNotAllowed     = "not_allowed"
)

// Created counts what an import created.
type Created struct {
	Accounts  int `json:"accounts"`
	Clients   int `json:"clients"`
	Users     int `json:"users"`
	Resources int `json:"resources"`
	Events    int `json:"events"`
	Webhooks  int `json:"webhooks"`
	Tokens    int `json:"tokens"`
}

func (c *Created) of(noun string) *int {
	switch noun {
	case "account":
		return &c.Accounts
	case "client":
		return &c.Clients
	case "user":
		return &c.Users
	case "webhook":
		return &c.Webhooks
	case "token":
		return &c.Tokens
	}
	panic("store: an import creates no " + noun)
}

// All returns the sum.
func (c Created) All() int {
	return c.Accounts + c.Clients + c.Users + c.Resources + c.Events + c.Webhooks + c.Tokens
}

// ImportSummary counts the lines of an import so far. Lines is the sum of what was created,
// Unchanged, Updated, Errors, Expired and Empty.
type ImportSummary struct {
	Lines           int
	Created         Created
	Unchanged       int
	Updated         int
	Errors          int
	Expired         int // tokens that were over
	Cut             int // tokens that ended later than they may
	Empty           int
	Privileged      int            // of those created or updated
	WithoutPassword int            // users among them without a password and without a hash
	Hashes          map[string]int // users among them, by kind
}

// Importer brings records in from lines, as many whole lines as fit an Update. What is committed
// stays. It creates, and changes nothing that exists, so the same lines may be imported again. Its
// memory does not grow with the lines, but for up to 100 bytes a line in a dry run.
type Importer struct {
	store   *Store
	options ImportOptions
	sum     ImportSummary
	run     importRun
	stopped bool
	pending []*importItem     // in order
	size    importSize        // of pending
	counts  int               // bytes of the counts of imported hashes, which each user writes again
	seen    seenLines         // of a dry run
	events  eventlog.Seen     // likewise
	taken   map[string]uint64 // likewise: what has a limit, of the lines whose Updates were rolled back
	owner   string            // of log
	log     *eventlog.Importer
}

// importItem is a line that waits for its Update.
type importItem struct {
	line    int
	offset  int64
	noun    string
	refused *moving.Error
	// prepare does what takes long, before the transaction, if wants reports that it may be
	// needed; nil does nothing.
	prepare func(context.Context) error
	wants   func(kv.Reader) (bool, error)
	// apply creates the record within tx, which may run again. In a dry run it only looks.
	apply func(tx kv.Txn) (importOutcome, error)
	size  importSize
}

// importSize is what an item may add to an Update.
type importSize struct{ writes, bytes int }

// importOutcome is what became of a line.
type importOutcome struct {
	refused    *moving.Error
	exists     bool // it is unchanged
	updated    bool
	expired    bool
	cut        bool
	differs    []string
	privileged bool
	gains      string // the id of what has new privileges, or ""
	hash       string // the kind of a user's hash, or ""
	noPassword bool
	after      func()      // once it is committed
	seen       []seenEntry // what later lines of a dry run may name
	takes      []string    // what it counts for in taken
}

const (
	importWritesMax = kv.UpdateWritesMax - 16   // the rest is for what an Update writes once
	importBytesMax  = kv.UpdateBytesMax - 8<<10 // likewise
	importLinesMax  = 500                       // refused ones too
)

// NewImport returns an Importer for an operator, with one audit line for all that it does.
func (s *Store) NewImport(ctx context.Context, o ImportOptions) *Importer {
	if o.Report == nil {
		o.Report = func(ImportReport) {}
	}
	counts := 0
	if err := s.db.View(ctx, func(r kv.Reader) (err error) {
		counts, err = importedSize(r)
		return err
	}); err != nil {
		s.log.Warn("counts of imported hashes not read", "err", err) // the first Update says so too
	}
	return &Importer{store: s, options: o, counts: counts, run: importRun{line: s.change(ctx, "imported"), now: s.Now, at: make([]importRunAt, 1)}, seen: newSeenLines(), taken: map[string]uint64{}, sum: ImportSummary{Hashes: map[string]int{}}}
}

// Summary returns the counts of what is committed. Lines counts those that were read.
func (im *Importer) Summary() ImportSummary {
	sum := im.sum
	if im.log != nil {
		of := im.log.Summary()
		sum.Created.Events += of.Recorded - of.Resources
		sum.Created.Resources += of.Resources
		sum.Unchanged += of.Unchanged
		sum.Errors += of.Errors
	}
	return sum
}

// Stopped reports whether a refused line has stopped the import.
func (im *Importer) Stopped() bool { return im.stopped }

func (im *Importer) goesOn() bool { return im.options.SkipErrors || im.options.DryRun }

// Add takes the next line, without its line end, which starts at offset. An error ends the
// import; what was committed stays. After the last line call Flush.
func (im *Importer) Add(ctx context.Context, line []byte, offset int64) error {
	if im.stopped {
		return nil
	}
	im.sum.Lines++
	if len(bytes.TrimSpace(line)) == 0 {
		im.sum.Empty++
		return nil
	}
	r, err := moving.Parse(line, false)
	if err != nil {
		return im.refuse(ctx, offset, err)
	}
	switch r := r.(type) {
	case *moving.Event:
		return im.addEvent(ctx, offset, r)
	case *moving.Resource:
		return im.addResource(ctx, offset, r)
	}
	item := &importItem{line: im.sum.Lines, offset: offset, noun: moving.NounOf(r), size: importSize{writes: 1, bytes: 2*len(line) + 1<<10}}
	if err := im.read(ctx, r, item); err != nil {
		return im.refuse(ctx, offset, err)
	}
	return im.enqueue(ctx, item)
}

// Refuse records that the next line could not be read.
func (im *Importer) Refuse(ctx context.Context, offset int64, code, reason, hint string) error {
	if im.stopped {
		return nil
	}
	im.sum.Lines++
	return im.refuse(ctx, offset, &moving.Error{Code: code, Reason: reason, Hint: hint})
}

// refuse queues a refusal in order, or passes on an error that is not about the line.
func (im *Importer) refuse(ctx context.Context, offset int64, err error) error {
	refused := refusalOf("", err)
	if refused == nil {
		return fmt.Errorf("import: %w", err)
	}
	return im.enqueue(ctx, &importItem{line: im.sum.Lines, offset: offset, refused: refused})
}

// read checks a record and says how it is created. Errors: *moving.Error, *InvalidError and
// others about the line.
func (im *Importer) read(ctx context.Context, r moving.Record, item *importItem) (err error) {
	switch r := r.(type) {
	case *moving.Account:
		err = im.readAccount(r, item)
	case *moving.Client:
		err = im.readClient(r, item)
	case *moving.User:
		err = im.readUser(r, item)
	case *moving.Webhook:
		err = im.readWebhook(ctx, r, item)
	case *moving.Token:
		err = im.readToken(r, item)
	}
	if refused := refusalOf(item.noun, err); refused != nil {
		return refused
	}
	return err
}

func (im *Importer) enqueue(ctx context.Context, item *importItem) error {
	if err := im.endLog(ctx); err != nil || im.stopped {
		return err
	}
	if item.noun == "user" {
		item.size.bytes += im.counts + importedEntryMax*(len(im.pending)+1)
	}
	fits := im.size.writes+item.size.writes <= importWritesMax && im.size.bytes+item.size.bytes <= importBytesMax && len(im.pending) < importLinesMax
	if !fits {
		if err := im.commit(ctx); err != nil || im.stopped {
			return err
		}
	}
	im.pending = append(im.pending, item)
	im.size.writes += item.size.writes
	im.size.bytes += item.size.bytes
	if item.refused != nil && !im.goesOn() {
		return im.commit(ctx)
	}
	return nil
}

// Flush commits the lines that wait.
func (im *Importer) Flush(ctx context.Context) error {
	if err := im.endLog(ctx); err != nil || im.stopped {
		return err
	}
	return im.commit(ctx)
}

// commit applies the lines that wait, in one Update.
func (im *Importer) commit(ctx context.Context) error {
	items := im.pending
	im.pending, im.size = nil, importSize{}
	if len(items) == 0 {
		return nil
	}
	if err := im.prepare(ctx, items); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	outcomes := make([]importOutcome, 0, len(items))
	err := im.store.db.Update(ctx, func(tx kv.Txn) (err error) {
		outcomes = outcomes[:0]
		for _, item := range items {
			o, err := item.outcome(tx)
			if err != nil {
				return err
			}
			outcomes = append(outcomes, o)
			if o.refused != nil && !im.goesOn() {
				break
			}
		}
		if im.counts, err = importedSize(tx); err != nil {
			return err
		}
		if im.options.DryRun {
			return errImportDryRun
		}
		after := im.sum
		after.Hashes = nil // the line does not say them
		for i := range outcomes {
			after.count(items[i].noun, outcomes[i])
		}
		return im.run.write(tx, 0, after)
	})
	if err != nil && !errors.Is(err, errImportDryRun) {
		return fmt.Errorf("import: %w", err)
	}
	im.run.done(0)
	for i, o := range outcomes {
		im.settle(items[i], o)
		if o.gains != "" && o.refused == nil && !im.options.DryRun {
			im.store.happened(ctx, HappenedPrivileges, o.gains)
		}
	}
	return nil
}

func gained(is bool, id string) string {
	if !is {
		return ""
	}
	return id
}

// errImportDryRun rolls back what a dry run has written.
var errImportDryRun = errors.New("dry run")

func (item *importItem) outcome(tx kv.Txn) (importOutcome, error) {
	if item.refused != nil {
		return importOutcome{refused: item.refused}, nil
	}
	o, err := item.apply(tx)
	if o.refused = refusalOf(item.noun, err); o.refused != nil {
		err = nil
	}
	return o, err
}

// settle counts and reports a line whose Update is committed.
func (im *Importer) settle(item *importItem, o importOutcome) {
	im.sum.count(item.noun, o)
	switch {
	case o.refused != nil:
		im.options.Report(ImportReport{Line: item.line, Offset: item.offset, Refused: o.refused})
		if !im.goesOn() {
			im.stopped, im.sum.Lines = true, item.line
		}
	case len(o.differs) > 0 && !o.updated:
		im.options.Report(ImportReport{Line: item.line, Offset: item.offset, Differs: o.differs})
	}
	if im.options.DryRun {
		im.seen.add(o.seen)
		for _, limited := range o.takes {
			im.taken[limited]++
		}
		return
	}
	if o.after != nil {
		o.after()
	}
}

func (s *ImportSummary) count(noun string, o importOutcome) {
	switch {
	case o.refused != nil:
		s.Errors++
		return
	case o.expired:
		s.Expired++
		return
	case o.exists:
		s.Unchanged++
		return
	case o.updated:
		s.Updated++
	default:
		*s.Created.of(noun)++
	}
	if o.privileged {
		s.Privileged++
	}
	if o.cut {
		s.Cut++
	}
	if o.noPassword {
		s.WithoutPassword++
	}
	if o.hash != "" && s.Hashes != nil {
		s.Hashes[o.hash]++
	}
}

// refusalOf returns what is wrong with a line, or nil if an error is not about it.
func refusalOf(noun string, err error) *moving.Error {
	var form *moving.Error
	var bad *record.InvalidError
	var doc *snapshot.Error
	param := func(member string) string { return strings.Trim(noun+"."+member, ".") }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &form):
		return form
	case errors.As(err, &bad):
		code := bad.Code
		if code == "" {
			code = moving.InvalidValue
		}
		return &moving.Error{Code: code, Param: param(bad.Field), Reason: bad.Reason, Hint: bad.Hint}
	case errors.As(err, &doc):
		return &moving.Error{Code: moving.InvalidValue, Param: param(doc.Path), Reason: doc.Reason}
	case errors.Is(err, ErrUnknownAccount):
		return &moving.Error{Code: importUnknownAccount, Param: param("account"), Reason: "the account does not exist", Hint: "put the line of the account before this one"}
	case errors.Is(err, ErrTooManyClients):
		return &moving.Error{Code: "limit_reached", Param: noun, Reason: "the store has as many clients as it may have", Hint: "delete clients that are not in use"}
	}
	return nil
}

func conflict(noun, member, hint, format string, args ...any) error {
	return &moving.Error{Code: importConflict, Param: noun + "." + member, Reason: fmt.Sprintf(format, args...), Hint: hint}
}

// mustAllow refuses what the operator has not allowed by name.
func (o ImportOptions) mustAllow(param, reason string, names ...string) error {
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(o.Allow, name) })
	if len(missing) == 0 {
		return nil
	}
	return &moving.Error{Code: importNotAllowed, Param: param, Reason: reason, Hint: "allow it with --allow " + strings.Join(missing, ",") + ", or leave such lines out"}
}

// importRun is the audit line of an import. Each Update writes it again behind all others, with
// the counts of what it commits, so that it is right whenever the process ends.
type importRun struct {
	line changeLine
	now  Now
	// at has where the line is and how much it counts: as committed, and then after each of the
	// Updates that run together.
	at []importRunAt
}

type importRunAt struct {
	position record.Position
	counts   int
}

// write writes the line within the nth of the Updates that run together.
func (r *importRun) write(tx kv.Txn, n int, sum ImportSummary) error {
	at := r.at[n]
	total := sum.Created.All() + sum.Updated
	if r.line.isAsked && total != at.counts {
		if !at.position.IsZero() {
			if err := tx.Delete(record.NewKey(record.TagAudit).Position(at.position)); err != nil {
				return err
			}
		}
		line := r.line.AuditLine
		line.Reason, line.Count = "imported: "+sum.text(), total
		position, err := appendAuditAt(tx, line, r.now(), r.line.tail)
		if err != nil {
			return err
		}
		at = importRunAt{position, total}
	}
	r.at = append(r.at[:n+1], at)
	return nil
}

// done says that the nth of the Updates that ran together is committed.
func (r *importRun) done(n int) {
	if n+1 < len(r.at) {
		r.at[0] = r.at[n+1]
	}
}

// text lists what was created.
func (s ImportSummary) text() string {
	var parts []string
	for _, of := range []struct {
		n    int
		noun string
	}{
		{s.Created.Accounts, "accounts"}, {s.Created.Clients, "clients"}, {s.Created.Users, "users"}, {s.Created.Resources, "resources"},
		{s.Created.Events, "events"}, {s.Created.Webhooks, "webhooks"}, {s.Created.Tokens, "tokens"}, {s.Updated, "updated"}, {s.Privileged, "privileged"},
	} {
		if of.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.noun))
		}
	}
	return strings.Join(parts, ", ")
}
