package desk

import (
	"fmt"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// TestOnceKept: a form that was sent is known for an hour, as the operator's own, and the
// newest 4,096 of all.
func TestOnceKept(t *testing.T) {
	t.Parallel()
	now := time.Unix(1773070200, 0)
	o := newOnceKept(func() time.Time { return now })
	olga, nils := store.User{ID: secret.ID{1}}, store.User{ID: secret.ID{2}}
	done := onceDone{views.MadeClient, "/desk/clients/x"}
	if _, repeated := o.begin(olga, "a"); repeated {
		t.Error("a new form counts as repeated")
	}
	if _, repeated := o.begin(olga, "a"); !repeated {
		t.Error("a form can be sent again while it is being done")
	}
	o.End(olga, "a", done)
	if got, repeated := o.find(olga, "a"); !repeated || got != done {
		t.Errorf("find = %v, %t, want what was made", got, repeated)
	}
	if _, repeated := o.find(nils, "a"); repeated {
		t.Error("a form counts for another operator")
	}
	now = now.Add(onceKeptFor - time.Second)
	if _, repeated := o.find(olga, "a"); !repeated {
		t.Error("the form is forgotten within the hour")
	}
	now = now.Add(time.Second)
	if _, repeated := o.find(olga, "a"); repeated {
		t.Error("the form is known after an hour")
	}
	o.End(olga, "first", done)
	for i := range onceKeptMax - 1 {
		o.End(nils, fmt.Sprint(i), done)
	}
	if _, repeated := o.find(olga, "first"); !repeated {
		t.Error("fewer than 4,096 forms are known")
	}
	o.forget(nils, "0")
	if _, repeated := o.begin(nils, "0"); repeated {
		t.Error("a form that failed cannot be sent again")
	}
}
