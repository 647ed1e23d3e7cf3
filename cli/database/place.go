package database

import (
	"context"
	"log/slog"
	"time"

	"tollhouse/store/kv/pgkv"
	"tollhouse/store/webhook"
)

// holdCopied holds the webhooks of a store that was last served in another place: a copy must not
// talk to the receivers of its original. The hold comes first, so that no server can find the new
// place recorded and nothing held.
func holdCopied(ctx context.Context, db *Engine, log *slog.Logger) error {
	s, err := pgkv.Dial(ctx, db.Address)
	if err != nil {
		return err
	}
	defer s.Close()
	place, err := s.Place(ctx)
	if err != nil {
		return err
	}
	site, err := s.Site(ctx)
	if err != nil {
		return err
	}
	if place.IsOther(site) {
		held, err := webhook.HoldUnasked(ctx, db, webhook.HeldCopied, time.Now())
		if err != nil {
			return err
		}
		log.Warn("database differs from that of the last start: restored from a dump, copied or upgraded", "webhooks_held", held)
	}
	return s.SetSite(ctx, place.Site())
}

// KeepPlace is [KeepPlace] for an open store.
func (o *Opened) KeepPlace(ctx context.Context) error {
	return KeepPlace(ctx, o.DB.(*Engine).Address)
}

// KeepPlace records that the store belongs where it is now, so that the next start holds no webhooks.
func KeepPlace(ctx context.Context, a *pgkv.Address) error {
	s, err := pgkv.Dial(ctx, a)
	if err != nil {
		return openFault(a, err)
	}
	defer s.Close()
	place, err := s.Place(ctx)
	if err == nil {
		err = s.SetSite(ctx, place.Site())
	}
	return openFault(a, err)
}
