package web

import (
	"context"
	"errors"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
)

// Moment is a time as pages show it.
func Moment(t, now time.Time) views.Moment { return views.Moment{At: t, Now: now} }

// AccountName returns the account's display name, or its id.
func AccountName(ctx context.Context, st *store.Store, id string) (string, error) {
	a, err := st.FindAccount(ctx, id)
	if errors.Is(err, record.ErrNotFound) || err == nil && a.Name == "" {
		return id, nil
	}
	return a.Name, err
}
