package eventlog

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

func putCustomer(t testing.TB, l *Log, owner, id, object string) {
	t.Helper()
	must.Get(l.PutResource(context.Background(), ResourceChange{Owner: owner, Kind: "customer", ID: id, Source: "test", Location: "api"}, document(t, object)))(t)
}

// TestFindCustomersByNameOrAddress: a search finds the customers of one account whose names and
// address contain every word, in any case, with or without accents, as they are now.
//
// Promise (Browsers): the desk finds a customer by name or e-mail within an account, within bounds
func TestFindCustomersByNameOrAddress(t *testing.T) {
	t.Parallel()
	l := openTest(t)
	ctx := context.Background()
	for id, object := range map[string]string{
		"cus_1": `{"displayName":"Orlandine Gorsebottle","firstName":"Orlandine","lastName":"Gorsebottle","email":"orlandine@inklenimble.example"}`,
		"cus_2": `{"company":"Café Bergström","email":"ZOË@BERGSTROM.example"}`,
		"cus_3": `{"firstName":"Jürgen","lastName":"Ångström","notes":"knows Orlandine"}`,
		"cus_4": `{"displayName":"Left Us","email":"left@us.example"}`,
		"cus_5": `{"displayName":"Before"}`,
	} {
		putCustomer(t, l, "a", id, object)
	}
	putCustomer(t, l, "b", "cus_9", `{"displayName":"Orlandine of another account"}`)
	putCustomer(t, l, "a", "cus_5", `{"displayName":"After"}`)
	must.Get(l.DeleteResource(ctx, ResourceChange{Owner: "a", Kind: "customer", ID: "cus_4", Source: "test", Location: "api"}))(t)
	for text, want := range map[string][]string{
		"Orlandine Gorsebottle": {"cus_1"}, "gorse": {"cus_1"}, "GORSEBOTTLE  orland": {"cus_1"}, "orlandine@inklenimble.example": {"cus_1"}, "orlandine nobody": nil,
		"cafe bergstrom": {"cus_2"}, "zoe@bergstrom": {"cus_2"}, "CAFÉ": {"cus_2"}, "jurgen": {"cus_3"}, "a\u030angstrom": {"cus_3"},
		"left": nil, "before": nil, "after": {"cus_5"}, "strom": {"cus_2", "cus_3"}, "": nil, " \u0301 ": nil, "notes": nil,
	} {
		found := must.Get(l.FindCustomers(ctx, "a", text, "", 10))(t)
		var ids []string
		for _, c := range found.Customers {
			ids = append(ids, c.ID)
		}
		if !slices.Equal(ids, want) || found.More {
			t.Errorf("%q finds %v, more %v, want %v", text, ids, found.More, want)
		}
	}
	found := must.Get(l.FindCustomers(ctx, "a", "strom", "", 10))(t)
	if want := []Customer{{"cus_2", "Café Bergström", "ZOË@BERGSTROM.example"}, {"cus_3", "Jürgen Ångström", ""}}; !slices.Equal(found.Customers, want) {
		t.Errorf("they are shown as %v, want %v", found.Customers, want)
	}
}

// TestFindCustomersIsBounded: a search reads so many customers and finds so many, and says
// where it goes on.
//
// Promise (Browsers): the desk finds a customer by name or e-mail within an account, within bounds
func TestFindCustomersIsBounded(t *testing.T) {
	t.Parallel()
	l := openTest(t)
	ctx := context.Background()
	fillCustomers(t, l, CustomersScanned+3)
	first := must.Get(l.FindCustomers(ctx, "a", "tea 20002", "", 10))(t)
	if len(first.Customers) != 0 || !first.More || first.Last != customerNumber(CustomersScanned-1) {
		t.Fatalf("the first search finds %v, more %v, after %s", first.Customers, first.More, first.Last)
	}
	rest := must.Get(l.FindCustomers(ctx, "a", "tea 20002", first.Last, 10))(t)
	if len(rest.Customers) != 1 || rest.Customers[0].ID != customerNumber(20_002) || rest.More {
		t.Errorf("the next search finds %v, more %v", rest.Customers, rest.More)
	}
	some := must.Get(l.FindCustomers(ctx, "a", "tea", "", 2))(t)
	if len(some.Customers) != 2 || !some.More || some.Last != customerNumber(1) {
		t.Errorf("a search for two finds %v, more %v, after %s", some.Customers, some.More, some.Last)
	}
	if end := must.Get(l.FindCustomers(ctx, "a", "tea", customerNumber(CustomersScanned), 2))(t); len(end.Customers) != 2 || end.More {
		t.Errorf("the last two are %v, more %v", end.Customers, end.More)
	}
}

func customerNumber(n int) string { return fmt.Sprintf("cus_%07d", n) }

// fillCustomers writes customers of about 500 bytes.
func fillCustomers(t testing.TB, l *Log, count int) {
	t.Helper()
	last := record.NewPosition(1, 0, [8]byte{})
	for from := 0; from < count; from += 500 {
		must.Do(t, l.db.Update(context.Background(), func(tx kv.Txn) error {
			for n := from; n < min(from+500, count); n++ {
				object := must.Get(encodeSnapshot(document(t, fmt.Sprintf(`{"id":"%s","object":"customer","customerRef":"LTR-%07d","displayName":"Larkspur Tea Room %d","company":"Larkspur Tea Room","firstName":"Odile","lastName":"Marchbanks","displayAs":"contact","address1":"18 Quarry Lane","address2":"","city":"Dunmere","state":"VT","zip":"05091","country":"US","phone":"8025550143","phoneExt":"","email":"odile@larkspurtea.example","dateAdded":"2026-03-09","notes":"asked to be reminded by telephone","active":"1"}`, customerNumber(n), n, n))))(t)
				if err := writeResource(tx, "a", customerKind, customerNumber(n), resourceRecord{last: last, json: object}); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// BenchmarkFindCustomers searches all that one search reads, and finds nobody.
func BenchmarkFindCustomers(b *testing.B) {
	l := openTest(b)
	fillCustomers(b, l, CustomersScanned)
	for b.Loop() {
		if found := must.Get(l.FindCustomers(context.Background(), "a", "nobody of this name", "", 20))(b); len(found.Customers) != 0 {
			b.Fatal(found)
		}
	}
}
