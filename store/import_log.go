package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
)

// Events and resources go through the importer of their account's log. Lines of one account stand
// together; where they do not, the import is only slower.

func (im *Importer) addEvent(ctx context.Context, offset int64, e *moving.Event) error {
	return im.addToLog(ctx, "event", cmp.Or(e.Owner, DefaultAccount), eventlog.ImportLine{Number: im.sum.Lines, Offset: offset, Text: e.Text})
}

func (im *Importer) addResource(ctx context.Context, offset int64, r *moving.Resource) error {
	object, err := snapshot.Parse(r.Object, snapshot.DepthMax)
	switch {
	case err != nil:
		return im.refuse(ctx, offset, resourceError(err))
	case r.Event != "" && r.Event != "none":
		return im.refuse(ctx, offset, &moving.Error{Code: moving.InvalidValue, Param: "resource.event", Reason: "event must be none", Hint: "leave it out to record kind.created"})
	case r.Event == "none" && (r.Action != "" || r.CreatedAt != nil):
		return im.refuse(ctx, offset, &moving.Error{Code: moving.InvalidValue, Param: "resource.event", Reason: "without an event there is no action and no createdAt", Hint: "leave them out"})
	}
	return im.addToLog(ctx, "resource", cmp.Or(r.Account, DefaultAccount), eventlog.ImportLine{Number: im.sum.Lines, Offset: offset,
		Resource: &eventlog.ImportedResource{Kind: r.Kind, ID: r.ID, Object: object, Action: r.Action, CreatedAt: r.CreatedAt, Silent: r.Event == "none"}})
}

func resourceError(err error) error {
	var doc *snapshot.Error
	if !errors.As(err, &doc) {
		return err
	}
	return &moving.Error{Code: moving.InvalidLine, Param: strings.Trim("resource.object."+doc.Path, "."), Reason: doc.Reason, Hint: "correct the resource"}
}

// addToLog passes a line on to the importer of its account's log.
func (im *Importer) addToLog(ctx context.Context, noun, owner string, line eventlog.ImportLine) error {
	if im.log == nil || im.owner != owner {
		if err := im.openLog(ctx, noun, owner); err != nil {
			return im.refuse(ctx, line.Offset, err)
		}
		if im.stopped {
			return nil
		}
	}
	refused, err := im.log.AddLine(ctx, line)
	im.refusedByLog(refused)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

// openLog commits what waits and begins with the log of another account. Errors: *moving.Error.
func (im *Importer) openLog(ctx context.Context, noun, owner string) error {
	if err := im.Flush(ctx); err != nil || im.stopped {
		return err
	}
	if err := record.CheckAccountID(owner); err != nil {
		return refusalOf(noun, err)
	}
	err := im.store.db.View(ctx, func(r kv.Reader) error { return im.mustHaveAccount(r, owner) })
	if err != nil {
		return cmp.Or[error](refusalOf(noun, err), err)
	}
	before := im.sum
	log, err := im.store.Events.NewImporter(owner, eventlog.ImportOptions{
		SkipErrors: im.options.SkipErrors, DryRun: im.options.DryRun, Seen: &im.events,
		Begin: func(kv.Txn) error { return nil },
		Along: func(tx kv.Txn, n int, recorded eventlog.Recorded) error {
			sum := before
			sum.Created.Events += recorded.Events
			sum.Created.Resources += recorded.Resources
			return im.run.write(tx, n, sum)
		},
		Done: im.run.done,
		Differs: func(line int, offset int64) {
			im.options.Report(ImportReport{Line: line, Offset: offset, Differs: []string{"object"}})
		},
	})
	im.log, im.owner = log, owner
	return err
}

// endLog commits the lines of the log that is open.
func (im *Importer) endLog(ctx context.Context) error {
	if im.log == nil {
		return nil
	}
	refused, err := im.log.Flush(ctx)
	im.refusedByLog(refused)
	im.sum, im.log = im.Summary(), nil
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

// refusedByLog reports refused lines of a log.
func (im *Importer) refusedByLog(refused []eventlog.LineError) {
	for _, e := range refused {
		noun, code, param := "event", e.Code, e.Param
		switch code {
		case "id_conflict":
			code = importConflict
		case "unknown_field":
			code = moving.UnknownMember
		}
		if e.OfResource {
			const inEvent = "eventData."
			noun, param, e.Reason = "resource", strings.TrimPrefix(param, inEvent), strings.TrimPrefix(e.Reason, inEvent)
		}
		im.options.Report(ImportReport{Line: e.Line, Offset: e.Offset, Refused: &moving.Error{Code: code, Param: strings.Trim(noun+"."+param, "."), Reason: e.Reason}})
	}
	if im.log.Stopped() && len(refused) > 0 {
		im.stopped, im.sum.Lines = true, refused[len(refused)-1].Line
	}
}

func (im *Importer) readWebhook(ctx context.Context, r *moving.Webhook, item *importItem) error {
	if im.options.Keyless {
		return record.Invalid("url", "name the key file with --key-file, or import while the server is running", "the secrets of webhook endpoints are sealed with the server key, which cannot be read")
	}
	in := webhook.Imported{ID: r.ID, Account: cmp.Or(r.Account, DefaultAccount), Cursor: r.Cursor, IsDisabled: r.State == "disabled"}
	if in.Account == eventlog.AllAccounts {
		if err := im.options.mustAllow("webhook.account", "the endpoint is sent the events of all accounts", AllowPrivileged); err != nil {
			return err
		}
	}
	if r.State != "" && r.State != "enabled" && r.State != "disabled" {
		return record.Invalid("state", "use enabled or disabled", "state must be enabled or disabled")
	}
	url, err := im.options.ParseURL(r.URL)
	var refused *target.Error
	if errors.As(err, &refused) {
		err = record.Invalid("url", refused.Hint, "%s", refused.Reason)
	}
	if err != nil {
		return err
	}
	in.Settings = webhook.Settings{URL: url, Types: r.Types, Description: r.Description, Order: webhook.Order(r.Order)}
	if r.Secret != nil {
		var ok bool
		if in.Secret, ok = secret.ParseWebhookSecret(string(*r.Secret)); !ok {
			return record.Invalid("secret", "leave it out to get a new one", "a webhook secret is whsec_ and the base64 of 24 to 64 bytes")
		}
	}
	e, err := im.store.Webhooks.NewImported(ctx, in)
	if err != nil {
		return err
	}
	item.size.writes = 3
	item.apply = func(tx kv.Txn) (importOutcome, error) { return im.applyWebhook(tx, r, e) }
	return nil
}

func (im *Importer) applyWebhook(tx kv.Txn, r *moving.Webhook, e webhook.Endpoint) (importOutcome, error) {
	if e.Account != eventlog.AllAccounts {
		if err := im.mustHaveAccount(tx, e.Account); err != nil {
			return importOutcome{}, err
		}
	}
	line, place := describeWebhook(e), e.Account+" "+e.URL
	found, err := webhook.FindImported(tx, e)
	whole := append(description{{member: "account", text: e.Account}, {member: "id", text: e.ID, isOpen: r.ID == ""}}, line...)
	seen, isSeen := im.seen.find("webhook_id", e.ID)
	if !isSeen {
		seen, isSeen = im.seen.find("webhook", place)
	}
	isOther := func(member string) bool { return member == "account" || member == "id" }
	switch {
	case err == nil && (found.Account != e.Account || r.ID != "" && found.ID != e.ID), isSeen && slices.ContainsFunc(whole.differsFromSeen(seen), isOther):
		return importOutcome{}, conflict("webhook", "id", "leave out the id, or give that of the endpoint", "another endpoint has this id, or this URL")
	case err == nil:
		return im.exists(line, describeWebhook(found))
	case !record.IsAbsent(err):
		return importOutcome{}, err
	case isSeen:
		return im.wasSeen(whole, seen)
	}
	o := importOutcome{seen: []seenEntry{seenAs("webhook", place, whole), seenAs("webhook_id", e.ID, whole)}, after: func() { im.store.Webhooks.Changed(e) }}
	cursor := r.Cursor
	if err = nil; im.options.DryRun {
		cursor = "" // its event may be in the lines before
		o.takes = []string{"webhooks", "webhooks of " + e.Account}
		err = webhook.MustFit(tx, e.Account, im.taken[o.takes[1]], im.taken[o.takes[0]])
	}
	if err == nil {
		err = im.store.Webhooks.Import(tx, e, cursor)
	}
	var gone *eventlog.CursorError
	var full *webhook.LimitError
	switch {
	case errors.As(err, &gone):
		err = record.Invalid("cursor", "leave it out", "%v", gone)
	case errors.As(err, &full):
		err = &moving.Error{Code: "limit_reached", Param: "webhook", Reason: full.Error(), Hint: "delete endpoints that are not in use"}
	}
	return o, err
}

func describeWebhook(e webhook.Endpoint) description {
	return description{
		{member: "url", text: e.URL}, describedList("types", e.Types), {member: "order", text: string(e.Order)}, {member: "description", text: e.Description},
		{member: "state", text: fmt.Sprint(e.Enabled())},
	}
}
