package record

import (
	"errors"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
)

// TestBudget: what an account writes is counted as it is written, an eighth of an hour's
// share may be written at once, and the rest as time passes.
//
// Promise (Credentials, memory, connections): an account that writes more than its budget gets 429
// with Retry-After, before the write; other accounts, reads, refreshes, endings and operators do
// not
func TestBudget(t *testing.T) {
	t.Parallel()
	const hourly = 8 * 1000
	begun := time.Unix(1_773_070_200, 0)
	now, refused := begun, 0
	var b Budget
	b.Init(hourly, func() time.Time { return now }, func() { refused++ })
	db := memkv.New(nil)
	write := func(account string, bytes int, as kv.Class) error {
		return b.Update(t.Context(), db, account, func(tx kv.Txn) error {
			tx.As(as)
			if bytes == 0 {
				return nil
			}
			return tx.Set([]byte("k"), make([]byte, bytes-1), time.Time{})
		})
	}
	step := func(what string, err error, wantWait time.Duration) {
		t.Helper()
		over, is := errors.AsType[*BudgetError](err)
		if wantWait == 0 && err != nil || wantWait > 0 && (!is || over.Wait < wantWait || over.Wait > wantWait+time.Second) {
			t.Errorf("%s: %v, want a wait of %s", what, err, wantWait)
		}
	}
	step("the first", write("a", 600, kv.Ordinary), 0)
	step("past the burst, by the write that passes it", write("a", 600, kv.Ordinary), 0)
	step("after it", write("a", 1, kv.Ordinary), 200*time.Hour/hourly)
	step("one that writes nothing", write("a", 0, kv.Ordinary), 0)
	step("another account", write("b", 600, kv.Ordinary), 0)
	step("an operator", write("", 60_000, kv.Ordinary), 0)
	step("an ending", write("a", 100, kv.Ending), 0)
	step("after an ending, which counts", write("a", 1, kv.Ordinary), 300*time.Hour/hourly)
	now = now.Add(302 * time.Hour / hourly)
	step("when that is forgotten", write("a", 100, kv.Ordinary), 0)
	step("then", write("a", 1, kv.Ordinary), 99*time.Hour/hourly)
	now = now.Add(time.Hour)
	for range 3 {
		errFault := errors.New("a fault")
		err := b.Update(t.Context(), db, "a", func(tx kv.Txn) error {
			return errors.Join(tx.Set([]byte("k"), make([]byte, 900), time.Time{}), errFault)
		})
		if !errors.Is(err, errFault) {
			t.Errorf("a failed update = %v, want its error", err)
		}
	}
	step("after updates that failed", write("a", 900, kv.Ordinary), 0)
	if refused != 3 {
		t.Errorf("%d refusals counted, want 3", refused)
	}
	now = begun.Add(-24 * time.Hour)
	step("a clock that stepped back", write("a", 1, kv.Ordinary), 0)
}

// TestBudgetWithoutABound counts and refuses nothing.
//
// Promise (Credentials, memory, connections): an account that writes more than its budget gets 429
// with Retry-After, before the write; other accounts, reads, refreshes, endings and operators do
// not
func TestBudgetWithoutABound(t *testing.T) {
	t.Parallel()
	var b, none Budget
	b.Init(0, time.Now, func() {})
	db := memkv.New(nil)
	for _, of := range []*Budget{&b, &none, nil} {
		for range 100 {
			err := of.Update(t.Context(), db, "a", func(tx kv.Txn) error {
				for i := range 15 {
					if err := tx.Set([]byte{'k', byte(i)}, make([]byte, 60<<10), time.Time{}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if !b.IsBusiest("a") || b.IsBusiest("b") || none.IsBusiest("a") {
		t.Error("the account that wrote all is not the busiest, or another is")
	}
}

// TestTheBusiest are the accounts that wrote at least half of what the first of them did.
//
// Promise (Credentials, memory, connections): on a nearly full disk changes are refused first, then
// sign-ins and refreshes, of those who wrote most before the others, and what ends something last,
// operators' at the very end
func TestTheBusiest(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_773_070_200, 0)
	var o Allowance[string]
	o.Init(1000, time.Second, true)
	for account, n := range map[string]int64{"first": 800, "half": 400, "less": 399, "little": 5} {
		o.Note(account, n, now)
	}
	is := func(account string, want bool) {
		t.Helper()
		if got := o.IsBusiest(account, 10, now); got != want {
			t.Errorf("IsBusiest(%s) = %t", account, got)
		}
	}
	is("first", true)
	is("half", true)
	is("less", false)
	is("none", false)
	now = now.Add(795 * time.Second)
	is("first", false) // it is long ago
	o.Note("little", 20, now)
	is("little", true)
}
