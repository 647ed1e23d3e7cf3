package webhook

import (
	"cmp"
	"context"
	"errors"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Imported is an endpoint of another instance.
type Imported struct {
	ID      string // or "" to draw one
	Account string
	Settings
	IsDisabled bool
	Cursor     string // the id of the last event that the receiver has; "" is the last one there is
}

// NewImported checks an endpoint that is to be imported, and seals its secret. Errors:
// *record.InvalidError, *snapshot.Error.
func (w *Webhooks) NewImported(ctx context.Context, i Imported) (Endpoint, error) {
	e := Endpoint{Account: i.Account, URL: i.URL, Description: i.Description, Order: cmp.Or(i.Order, defaultOrder(i.Account)), Revision: 1, CreatedAt: w.Now()}
	types := i.Types
	if types == nil {
		types = []string{"*"}
	}
	var err, idErr error
	e.Types, err = checkTypes(types)
	if e.key = secret.NewID(w.Random); i.ID != "" {
		if e.key, idErr = parseID(i.ID); idErr != nil {
			idErr = record.Invalid("id", "leave it out to get a new one", "id is not that of a webhook endpoint")
		}
	}
	if err = errors.Join(idErr, checkAccount(System, i.Account), err, w.checkDescription(ctx, i.Account, e.Description), checkOrder(e.Order)); err != nil {
		return Endpoint{}, err
	}
	token := i.Secret
	if token.IsZero() {
		token = secret.NewWebhookSecret(w.Random)
	}
	e.ID = formatID(e.key)
	e.Secrets = []Secret{w.seal(e.ID, token)}
	if i.IsDisabled {
		e.Disabled = Disabled{By: ByOperator, Reason: Asked, At: w.Now()}
	}
	return e, nil
}

// FindImported returns the endpoint that has the id, or else the account and URL, of one that is
// to be imported, as it stands in a transaction. Errors: record.ErrNotFound.
func FindImported(r kv.Reader, e Endpoint) (Endpoint, error) {
	account, err := r.Get(record.WebhookIDKey(e.key))
	if err == nil {
		return read(r, string(account), e.key)
	}
	if !record.IsAbsent(err) {
		return Endpoint{}, err
	}
	others, err := page(r, e.Account, secret.ID{}, true, AccountMax)
	for _, other := range others {
		if other.URL == e.URL {
			return other, err
		}
	}
	return Endpoint{}, cmp.Or(err, record.ErrNotFound)
}

// Import creates an endpoint of NewImported within tx, without an event, since history is
// imported as it was. The caller calls Changed once it is committed. A refusal writes nothing, since
// the caller commits the lines beside it. Errors: *ExistsError,
// *LimitError, *record.InvalidError and *eventlog.CursorError for the cursor.
func (w *Webhooks) Import(tx kv.Txn, e Endpoint, cursor string) error {
	if err := checkPlace(tx, e, true); err != nil {
		return err
	}
	from := FromNow()
	if cursor != "" {
		from = FromEvent(cursor)
	}
	var err error
	if e.Cursor, err = from.resolve(tx, e.Account, e.CreatedAt); err != nil {
		return err
	}
	if err := changeInstance(tx, 1); err != nil {
		return err
	}
	return errors.Join(tx.Set(record.WebhookIDKey(e.key), []byte(e.Account), time.Time{}), write(tx, e))
}

// MustFit refuses one more endpoint where so many of lines before are not in r: those of the account and
// those of all accounts. Errors: *LimitError.
func MustFit(r kv.Reader, account string, ofAccount, ofAll uint64) error {
	others, err := page(r, account, secret.ID{}, true, AccountMax)
	if err == nil && uint64(len(others))+ofAccount >= AccountMax {
		err = &LimitError{Max: AccountMax}
	}
	in, instanceErr := readInstance(r)
	if err == nil && uint64(in.Endpoints)+ofAll >= InstanceMax {
		err = &LimitError{Instance: true, Max: InstanceMax}
	}
	return cmp.Or(err, instanceErr)
}

// Changed says that an imported endpoint was committed.
func (w *Webhooks) Changed(e Endpoint) { w.changed(e.ID) }
