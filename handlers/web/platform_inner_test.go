package web

import (
	"context"
	"testing"

	"tollhouse/store"
)

// Promise (Platform §2): memory is charged to the platform client, for all accounts together, and
// not to the merchant
func TestMemoryOfAPlatformClient(t *testing.T) {
	t.Parallel()
	l := newLoad(0)
	share := l.pools[AnswerBudget].size / accountPart
	lease := func(p store.Principal) *Lease {
		facts := &RequestFacts{Lease: Lease{load: l, connection: noConnection{}}}
		NotePrincipal(context.WithValue(t.Context(), store.RequestKey, facts), &p)
		return &facts.Lease
	}
	acting := func(account string) *Lease {
		return lease(store.Principal{ClientID: "billing", Platform: true, Account: account})
	}
	if !acting("acct_a").Try(AnswerBudget, share) {
		t.Fatal("a platform client gets no memory")
	}
	if acting("acct_b").Try(AnswerBudget, 1) {
		t.Error("for another account it gets more than its share")
	}
	if !lease(store.Principal{ClientID: "app", UserID: "usr_1", Account: "acct_a"}).Try(AnswerBudget, share) {
		t.Error("it has used up the share of the account that it acts for")
	}
}
