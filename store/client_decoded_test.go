package store_test

import (
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestAChangedClient: a server that has decoded a client sees what another has changed of it, at
// the next authentication.
//
// Promise (Postgres §2): a remembered client or token is never believed: what an operator has changed
// holds from the next request on.
func TestAChangedClient(t *testing.T) {
	onShared(t, func(t *testing.T, a, b grant) {
		ctx := t.Context()
		id := a.client.ID
		_, sec, err := a.RotateClientSecret(ctx, id, true)
		must.Do(t, err)
		now := func() (store.Client, error) { return b.AuthenticateClient(ctx, id, sec.Reveal(), nil) }
		wantNow := func(after string) {
			t.Helper()
			for range 2 { // decoded, and kept
				c := must.Get(now())(t)
				if stored := must.Get(b.FindClient(ctx, id))(t); !reflect.DeepEqual(c, stored) {
					t.Errorf("after %s the client is %+v, want %+v", after, c, stored)
				}
			}
		}
		wantNow("its first secret")
		scopes, grants, name := []string{"resources:read"}, []string{"refresh_token", "authorization_code"}, "Larkspur again"
		must.Get(a.UpdateClient(ctx, id, store.ClientChange{Scopes: &scopes}))(t)
		wantNow("its scope")
		must.Get(a.UpdateClient(ctx, id, store.ClientChange{Grants: &grants, Name: &name}))(t)
		wantNow("its grants and its name")
		must.Get(a.RevokeClient(ctx, id))(t)
		wantNow("the end of its tokens")
		must.Get(a.DisableClient(ctx, id))(t)
		_, err = now()
		refused(t, "AuthenticateClient(disabled)", err, record.ErrMismatch)
		must.Get(a.EnableClient(ctx, id))(t)
		wantNow("being enabled")
		old := sec
		_, sec, err = a.RotateClientSecret(ctx, id, true)
		must.Do(t, err)
		_, err = b.AuthenticateClient(ctx, id, old.Reveal(), nil)
		refused(t, "AuthenticateClient(secret of before)", err, record.ErrMismatch)
		wantNow("a new secret")
		must.Do(t, a.DeleteClient(ctx, id))
		_, err = now()
		refused(t, "AuthenticateClient(deleted)", err, record.ErrMismatch)
	})
}

// TestClientsAreDecodedBesideChanges: whoever authenticates beside changes sees a client that is no
// older than the last change before, and whole.
func TestClientsAreDecodedBesideChanges(t *testing.T) {
	t.Parallel()
	const changes, readers = 60, 4
	f := storetest.New(t)
	c, sec := f.Client(t)
	var revision atomic.Uint64
	revision.Store(c.Revision)
	var callers sync.WaitGroup
	ended := make(chan struct{})
	for range readers {
		callers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				least := revision.Load()
				now, err := f.AuthenticateClient(t.Context(), c.ID, sec.Reveal(), nil)
				if err != nil || now.Revision < least || len(now.RedirectURIs) == 0 || now.Secrets() != 1 || now.Name != now.RedirectURIs[0][len(storetest.CallbackURI):]+c.Name {
					t.Errorf("AuthenticateClient() = %+v, %v, want at least revision %d, whole", now, err, least)
					return
				}
			}
		})
	}
	for i := range changes {
		mark := string(rune('a' + i%26))
		name, uris := mark+c.Name, []string{storetest.CallbackURI + mark}
		changed, err := f.UpdateClient(t.Context(), c.ID, store.ClientChange{Name: &name, RedirectURIs: &uris})
		if err != nil {
			t.Error(err)
			break
		}
		revision.Store(changed.Revision)
	}
	close(ended)
	callers.Wait()
}
