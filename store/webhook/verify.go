package webhook

import (
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Verifier checks the records of endpoints in key order: deliveries and events set aside
// come first, then the list of endpoints, then the endpoints.
type Verifier struct {
	accounts map[secret.ID]string
	set      map[secret.ID]*counts
}

type counts struct{ parked, dead int }

// NewVerifier returns a Verifier that has seen no record.
func NewVerifier() *Verifier {
	return &Verifier{accounts: map[secret.ID]string{}, set: map[secret.ID]*counts{}}
}

// Line checks a delivered event.
func (v *Verifier) Line(value []byte) error {
	x, err := decodeLine(value)
	if err == nil && x.State != Delivered {
		return record.Damaged("a webhook delivery has the state %q", x.State)
	}
	return err
}

// Aside checks an event that is set aside.
func (v *Verifier) Aside(id secret.ID, p record.Position, value []byte) error {
	x, err := decodeLine(value)
	if err != nil {
		return err
	}
	if x.Position != p || x.State == Delivered {
		return record.Damaged("a webhook event set aside does not agree with its key")
	}
	n := v.set[id]
	if n == nil {
		n = &counts{}
		v.set[id] = n
	}
	if x.State.isDead() {
		n.dead++
	} else {
		n.parked++
	}
	return nil
}

// Listed checks an entry of the list of endpoints.
func (v *Verifier) Listed(id secret.ID, value []byte) error {
	v.accounts[id] = string(value)
	return checkAccount(By{}, string(value))
}

// Endpoint checks an endpoint.
func (v *Verifier) Endpoint(account string, id secret.ID, value []byte) error {
	e, err := decodeEndpoint(account, id, value)
	if err != nil {
		return err
	}
	if v.accounts[id] != account {
		return record.Damaged("the webhook endpoint %s is not in the list", e.ID)
	}
	delete(v.accounts, id)
	n := v.set[id]
	if n == nil {
		n = &counts{}
	}
	if e.Parked != n.parked || e.Dead != n.dead {
		return record.Damaged("the webhook endpoint %s counts %d parked and %d dead events, and has %d and %d", e.ID, e.Parked, e.Dead, n.parked, n.dead)
	}
	return nil
}

// Finish makes the check that needs all records.
func (v *Verifier) Finish() error {
	for id, account := range v.accounts {
		return record.Damaged("the webhook endpoint %s of %s is in the list only", formatID(id), account)
	}
	return nil
}

// CheckInstance checks the record of the instance.
func CheckInstance(value []byte) error {
	_, err := decodeInstance(value)
	return err
}
