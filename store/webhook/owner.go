package webhook

import (
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Owner is the authorization to which an endpoint is bound: that of the token that created
// or enabled it, or last changed its URL, its secret or its position. When the authorization
// is revoked the endpoint is disabled, because a leaked token would otherwise outlive its
// revocation as a push. The zero Owner is an operator, whose endpoints end with no token.
type Owner struct {
	Client, User string
	// Family is the family of the token; zero for a client that acts for itself. Such an
	// endpoint is bound to the client.
	Family secret.ID
	// OneAccount is set for a token of a platform client that acts for this account alone.
	OneAccount bool

	ClientGeneration, UserGeneration uint64
}

// IsOperator reports whether no authorization owns the endpoint.
func (o Owner) IsOperator() bool { return o.Client == "" && o.User == "" }

// covers reports whether revoking o also revokes what other owns. An empty field of o
// matches anything.
func (o Owner) covers(other Owner) bool {
	return (o.Client == "" || o.Client == other.Client) && (o.User == "" || o.User == other.User) &&
		(o.Family.IsZero() || o.Family == other.Family)
}

// bind binds an endpoint to the caller. Errors: as checkOwner.
func (w *Webhooks) bind(tx kv.Txn, e *Endpoint, by By) error {
	e.Owner = by.Owner
	return w.checkOwner(tx, e.Account, e.Owner)
}

// checkOwner returns record.ErrDisabled if the authorization has ended.
func (w *Webhooks) checkOwner(r kv.Reader, account string, o Owner) error {
	reason, err := w.Ended(r, account, o)
	if err == nil && reason != "" {
		return fmt.Errorf("the authorization has ended: %w", record.ErrDisabled)
	}
	return err
}
