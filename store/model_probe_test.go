package store_test

import (
	"context"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// probe checks the four promises after the history, without the model.
func (h *history) probe(t judge) {
	h.probeStranger(t)
	h.probeLost(t)
	h.f.Clock.Advance(h.latest().Sub(h.f.Now()) + lives.RefreshGrace + tick)
	for _, fam := range h.families {
		h.probeFamily(t, fam)
	}
}

// latest is when the latest pair was issued: the clock may have been set back since.
func (h *history) latest() time.Time {
	latest := h.f.Now()
	for _, r := range h.refresh {
		if r.pair != nil && r.pair.made.After(latest) {
			latest = r.pair.made
		}
	}
	return latest
}

// probeStranger has another client try every existing token and code. The later probes
// show whether that harmed a family.
func (h *history) probeStranger(t judge) {
	for _, r := range h.refresh {
		h.stepRefresh(t, r, 1-r.family.client)
		h.stepRevoke(t, r, 1-r.family.client)
	}
	for _, a := range h.access {
		h.stepInspect(t, a, 1-a.family.client)
		h.stepRevokeAccess(t, a, 1-a.family.client)
	}
	for _, c := range h.codes {
		h.stepRedeem(t, c, 1-c.client, c.pkce)
	}
}

// probeLost refreshes again for every pair not yet used, which its client may never have
// received. It gets one as long as its own token is live.
func (h *history) probeLost(t judge) {
	for _, r := range h.refresh {
		if r.pair == nil || r.retired || r.pair.used || r.pair.next.pair != nil || r.family.revoked || r.family.dead || !h.f.Now().Before(r.expires) {
			continue
		}
		if _, want := h.predict(r, r.family.client); want != nil {
			t.Fatalf("the model answers %v where an answer was lost, want a pair", want)
		}
		h.stepRefresh(t, r, r.family.client)
	}
}

// probeFamily tries all tokens of a family: at most one refresh token gives a pair at
// any one time, and what is revoked stays revoked.
func (h *history) probeFamily(t judge, fam *modelFamily) {
	ctx := context.Background()
	revoked := fam.revoked || fam.dead
	pairs := map[secret.Hash]bool{}
	for _, r := range fam.refresh {
		if issued, err := h.f.RotateRefresh(ctx, store.Refresh{Client: h.clients[fam.client], Token: r.token}); err == nil {
			pairs[issued.RefreshToken.Hash()] = true
		}
	}
	if len(pairs) > 1 || revoked && len(pairs) > 0 {
		t.Fatalf("%d refresh tokens of a family live (revoked: %t), want one at most and none", len(pairs), revoked)
	}
	if !revoked {
		return
	}
	for _, a := range fam.access {
		if _, err := h.f.FindPrincipal(ctx, a.token); err == nil {
			t.Fatal("an access token of a revoked family lives, want it dead")
		}
	}
}
