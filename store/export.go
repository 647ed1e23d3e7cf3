package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/webhook"
)

// An export is the lines of an import, of one moment. It is read from a version that the engine
// holds, a page at a time, so that no transaction is open while the lines are sent. The order of
// the lines comes from what they say, never from ids that an import draws: an import of them into
// an empty store, exported again, is the same bytes.

// ExportSpec says what an export has.
type ExportSpec struct {
	Nouns   []string // those of [moving.Nouns] that it has; empty means all
	Account string   // leaves out what belongs to others; "" means all
	Secrets bool     // hashes of passwords, secrets and tokens, and the secrets of webhook endpoints
}

func (x ExportSpec) has(noun string) bool { return len(x.Nouns) == 0 || slices.Contains(x.Nouns, noun) }

// takes reports whether something of the account belongs to the export.
func (x ExportSpec) takes(account string) bool { return x.Account == "" || x.Account == account }

// Export reads a store as lines. It is not safe for concurrent use. Close it.
type Export struct {
	s      *Store
	held   kv.Held
	unlock func()
	stages []exportStage
}

// exportStage reads the next page of a part of an export. isEnd is set with the last page.
type exportStage func(r kv.Reader) (page []moving.Record, isEnd bool, err error)

// exportPageMax is how many records are read in one transaction.
const exportPageMax = 500

var errNotHeld = errors.New("this engine holds no version")

// NewExport begins an export of what was acknowledged before the call. Other processes may write
// meanwhile. One that has secrets leaves an audit line, whatever becomes of it. Only one export runs at
// a time; a second one gets ErrUnavailable. Errors: ErrUnknownAccount; ErrCorrupt when the store
// is damaged, and the engine's.
func (s *Store) NewExport(ctx context.Context, spec ExportSpec) (*Export, error) {
	unlock, ok, err := s.tryLock(ctx, "export", &s.exporting)
	if err == nil && !ok {
		err = fmt.Errorf("%w: another export is running", record.ErrUnavailable)
	}
	if err != nil {
		return nil, err
	}
	held, err := s.beginExport(ctx, spec)
	if err != nil {
		unlock()
		return nil, fmt.Errorf("export: %w", err)
	}
	x := &Export{s: s, held: held, unlock: unlock}
	x.stages = x.stagesOf(spec)
	return x, nil
}

func (s *Store) beginExport(ctx context.Context, spec ExportSpec) (kv.Held, error) {
	engine, ok := s.db.(kv.Holder)
	if !ok {
		return nil, errNotHeld
	}
	line := s.change(ctx, "")
	if spec.Secrets {
		line = s.change(ctx, "exported with secrets")
	}
	err := record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error {
		if spec.Account != "" {
			if _, err := knownAccount(tx, spec.Account); err != nil {
				return err
			}
		}
		return line.ofAccount(tx, spec.Account)
	})
	if err != nil {
		return nil, err
	}
	s.Flush(ctx) // the export has recent uses
	return engine.Hold(ctx)
}

// Close ends the export.
func (x *Export) Close() {
	x.held.Release()
	x.unlock()
}

// Next appends further lines to dst and returns how many; 0 means the end. Between calls the
// caller may wait. Errors: ErrCorrupt, the engine's.
func (x *Export) Next(ctx context.Context, dst []byte) (lines []byte, count int, err error) {
	for len(x.stages) > 0 && count == 0 {
		giveWay := kv.Turn(x.s.db)
		var page []moving.Record
		isEnd := false
		err = x.held.View(ctx, func(r kv.Reader) error {
			page, isEnd, err = x.stages[0](r)
			return err
		})
		if err != nil {
			return dst, 0, fmt.Errorf("export: %w", err)
		}
		if isEnd {
			x.stages = x.stages[1:]
		}
		for _, line := range page {
			if dst, err = moving.Append(dst, line); err != nil {
				return dst, 0, fmt.Errorf("export: %w", err)
			}
		}
		count = len(page)
		giveWay(ctx)
	}
	return dst, count, ctx.Err()
}

func (x *Export) stagesOf(spec ExportSpec) (stages []exportStage) {
	for _, noun := range moving.Nouns() {
		if !spec.has(noun) {
			continue
		}
		switch noun {
		case "account":
			stages = append(stages, exportAccounts(spec))
		case "client":
			stages = append(stages, exportClients(spec))
		case "user":
			stages = append(stages, x.users(spec))
		case "resource":
			stages = append(stages, x.resources(spec))
		case "event":
			stages = append(stages, x.events(spec))
		case "webhook":
			stages = append(stages, x.webhooks(spec))
		case "token":
			if spec.Secrets {
				stages = append(stages, newTokenExport(x.s.Now(), spec).next)
			}
		}
	}
	return stages
}

// exportScan is a stage that makes a line of each key of a range, or none.
func exportScan(rest kv.Range, of func(k, v []byte) (moving.Record, error)) exportStage {
	rest.Limit = exportPageMax
	return func(r kv.Reader) (page []moving.Record, isEnd bool, err error) {
		rows := 0
		for k, v := range r.Scan(rest) {
			line, err := of(k, v)
			if err != nil {
				return nil, false, err
			}
			if line != nil {
				page = append(page, line)
			}
			rows++
			rest.Lo = append(slices.Clone(k), 0)
		}
		return page, rows < rest.Limit, nil
	}
}

func exportAccounts(spec ExportSpec) exportStage {
	return exportScan(record.NewKey(record.TagAccount).All(), func(k, v []byte) (moving.Record, error) {
		id, _ := record.CutString(k[1:])
		a, err := decodeAccount(id, v)
		if err != nil || !a.erasedSince.IsZero() || !spec.takes(id) {
			return nil, err
		}
		return &moving.Account{ID: id, Name: a.Name, Disabled: !a.DisabledAt.IsZero(), CreatedAt: unixOf(a.CreatedAt)}, nil
	})
}

func exportClients(spec ExportSpec) exportStage {
	return exportScan(record.NewKey(record.TagClient).All(), func(k, v []byte) (moving.Record, error) {
		id, _ := record.CutString(k[1:])
		c, err := decodeClient(id, v)
		if err != nil || c.Account != "" && !spec.takes(c.Account) {
			return nil, err
		}
		of := c.spec()
		line := &moving.Client{
			ClientID: id, Name: c.Name, RedirectURIs: of.RedirectURIs, Grants: of.Grants, Scopes: of.Scopes, Public: c.Public, Introspect: c.Introspect,
			Account: c.Account, Platform: c.Platform, Disabled: !c.DisabledAt.IsZero(), CreatedAt: unixOf(c.CreatedAt),
		}
		if of.Consent != ConsentAsk {
			line.Consent = of.Consent
		}
		if spec.Secrets && len(c.secrets) > 0 {
			line.SecretHash.JSON = c.secrets[0].export().Append(nil)
		}
		return line, nil
	})
}

// export returns the hash of a secret as an import takes it.
func (s clientSecret) export() snapshot.Value {
	if s.foreign != "" {
		return secret.ExportHash(s.foreign)
	}
	return snapshot.ObjectOf(
		snapshot.Member{Name: "scheme", Value: snapshot.Text("sha256")},
		snapshot.Member{Name: "hash", Value: snapshot.Text(hex.EncodeToString(s.hash[:]))},
	)
}

// users reads users by the form of their names in which they are compared.
func (x *Export) users(spec ExportSpec) exportStage {
	rest := record.NewKey(record.TagUserName).All()
	rest.Limit = exportPageMax
	return func(r kv.Reader) (page []moving.Record, isEnd bool, err error) {
		var ids []secret.ID
		var keys [][]byte
		for k, v := range r.Scan(rest) {
			id, err := userID(v)
			if err != nil {
				return nil, false, err
			}
			ids, keys = append(ids, id), append(keys, record.UserKey(id))
			rest.Lo = append(slices.Clone(k), 0)
		}
		for i, v := range r.GetMany(keys) {
			u, err := decodeUser(ids[i], v)
			if err != nil {
				return nil, false, err
			}
			if !spec.takes(u.Account) {
				continue
			}
			line := u.export(spec.Secrets)
			if spec.Secrets {
				err = x.s.exportFactor(r, u, line)
			}
			if err != nil {
				return nil, false, err
			}
			page = append(page, line)
		}
		return page, len(ids) < rest.Limit, nil
	}
}

func (u User) export(withHash bool) *moving.User {
	line := &moving.User{ID: u.Subject(), Username: u.Username, Account: u.Account, Operator: u.Operator, Disabled: !u.DisabledAt.IsZero(), CreatedAt: unixOf(u.CreatedAt)}
	if withHash && u.password != "" {
		line.PasswordHash.JSON = secret.ExportHash(u.password).Append(nil)
	}
	return line
}

// resources reads the resources that the exported events do not make.
func (x *Export) resources(spec ExportSpec) exportStage {
	all := x.s.Events.NewResourceExport(spec.Account)
	return func(r kv.Reader) (page []moving.Record, isEnd bool, err error) {
		list, isEnd, err := all.Next(r, exportPageMax)
		erasing := map[string]bool{}
		for _, o := range list {
			if o.IsOfEvent && spec.has("event") {
				continue
			}
			gone, known := erasing[o.Owner]
			if !known && err == nil {
				gone, err = isErasing(r, o.Owner)
				erasing[o.Owner] = gone
			}
			if !gone {
				page = append(page, &moving.Resource{Kind: o.Kind, ID: o.ID, Object: o.JSON, Account: o.Owner, Event: "none"})
			}
		}
		return page, isEnd, err
	}
}

// events reads the events of one account after the other.
func (x *Export) events(spec ExportSpec) exportStage {
	var of *eventlog.Export
	accounts := record.NewKey(record.TagAccount).All()
	if spec.Account != "" {
		accounts = record.AccountKey(spec.Account).All()
	}
	accounts.Limit = 1
	return func(r kv.Reader) (page []moving.Record, isEnd bool, err error) {
		if of == nil {
			isEnd = true
			for k, v := range r.Scan(accounts) {
				isEnd = false
				accounts.Lo = append(slices.Clone(k), 0)
				id, _ := record.CutString(k[1:])
				a, err := decodeAccountHead(id, v)
				if err != nil {
					return nil, false, err
				}
				if a.erasedSince.IsZero() {
					of = x.s.Events.NewKeptExport(id)
				}
			}
			if of == nil {
				return nil, isEnd, nil
			}
		}
		n, err := of.Each(r, exportPageMax, func(wire []byte) {
			page = append(page, &moving.Event{Text: slices.Clone(wire)})
		})
		if n == 0 {
			of = nil
		}
		return page, false, err
	}
}

// webhooks reads the webhook endpoints of one account after the other.
func (x *Export) webhooks(spec ExportSpec) exportStage {
	behind := ""
	return func(r kv.Reader) (page []moving.Record, isEnd bool, err error) {
		var list []webhook.Exported
		if spec.Account != "" {
			isEnd = true
			list, err = x.s.Webhooks.ExportOf(r, spec.Account)
		} else if list, err = x.s.Webhooks.ExportNext(r, behind); len(list) == 0 {
			isEnd = true
		} else {
			behind = list[0].Account
		}
		if err != nil || len(list) == 0 {
			return nil, isEnd, err
		}
		if gone, err := isErasing(r, list[0].Account); err != nil || gone {
			return nil, isEnd, err
		}
		for i := range list {
			page = append(page, exportWebhook(&list[i], spec.Secrets))
		}
		return page, isEnd, nil
	}
}

func exportWebhook(e *webhook.Exported, withSecret bool) *moving.Webhook {
	line := &moving.Webhook{ID: e.ID, URL: e.URL, Account: e.Account, Types: e.Types, Order: string(e.Order), Description: e.Description, Cursor: e.From}
	if withSecret && !e.Token.IsZero() {
		line.Secret = new(moving.Secret(e.Token.Reveal()))
	}
	// An import gives an endpoint without a secret a new one, which its receiver does not know.
	if !e.Enabled() || withSecret && e.Token.IsZero() {
		line.State = "disabled"
	}
	return line
}

// unixOf returns a time in whole Unix seconds, nil for none.
func unixOf(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	seconds := t.Unix()
	return &seconds
}
