package eventlog

import (
	"context"
	"errors"
	"time"
)

// SearchEvents is ListEvents that keeps reading, a bounded search at a time, until the page has
// a row, nothing is left to read, or atMost has passed. Its Version is that before the
// first search. Errors: *CursorError.
func (l *Log) SearchEvents(ctx context.Context, owner string, f Filter, atMost time.Duration, dst []byte) (Page, error) {
	begun := time.Now()
	page, err := l.ListEvents(ctx, owner, f, dst)
	for err == nil && page.Count == 0 && page.More && time.Since(begun) < atMost {
		further := f
		if f.Before.IsZero() {
			further.After = CursorAt(page.Next)
		} else {
			further.Before = CursorAt(page.Previous)
		}
		next, failed := l.ListEvents(ctx, owner, further, page.Data)
		if removed := (*CursorError)(nil); errors.As(failed, &removed) {
			break // by retention, just now: the caller's next request is told
		}
		next.Version, next.Cursor, next.Unseen = page.Version, page.Cursor, page.Unseen
		page, err = next, failed
	}
	return page, err
}

// SearchResources is ListResources that keeps reading like SearchEvents.
func (l *Log) SearchResources(ctx context.Context, owner, kind, after string, limit int, fits Fits, atMost time.Duration, dst []byte) (ResourcePage, error) {
	begun := time.Now()
	page, err := l.ListResources(ctx, owner, kind, after, limit, fits, dst)
	for err == nil && page.Count == 0 && page.More && time.Since(begun) < atMost {
		page, err = l.ListResources(ctx, owner, kind, page.Last, limit, fits, page.Data)
	}
	return page, err
}
