package api

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"tollhouse/store/snapshot"
	"tollhouse/views"
)

// The shown part of a diff, so that ten events fit a page.
const (
	ChangesShownMax = 20
	changeRunesMax  = 120 // characters of a value
)

// ShownEvent is what pages show of an event.
type ShownEvent struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Resource  string `json:"resource"`
	CreatedAt int64  `json:"createdAt"`
	EventData struct {
		Object             json.RawMessage `json:"object"`
		PreviousAttributes json.RawMessage `json:"previousAttributes"`
	} `json:"eventData"`
}

// Changes lists the members that the event changed. previousAttributes is the merge patch
// that turns the new snapshot back into the old one (RFC 7396): null is a member that was
// not there.
func (e *ShownEvent) Changes() ([]views.Change, error) {
	if len(e.EventData.PreviousAttributes) == 0 {
		return nil, nil
	}
	patch, err := snapshot.Parse(e.EventData.PreviousAttributes, snapshot.DepthMax+1)
	if err != nil {
		return nil, fmt.Errorf("read the previous attributes of %s: %w", e.ID, err)
	}
	object, err := snapshot.Parse(e.EventData.Object, snapshot.DepthMax+1)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot of %s: %w", e.ID, err)
	}
	return appendChanges(nil, "", patch, object), nil
}

func appendChanges(list []views.Change, path string, patch, after snapshot.Value) []views.Change {
	for _, m := range patch.Members() {
		name := path + m.Name
		now, ok := after.Member(m.Name)
		if m.Value.Kind() == snapshot.Object && ok && now.Kind() == snapshot.Object {
			list = appendChanges(list, name+".", m.Value, now)
			continue
		}
		c := views.Change{Member: name, New: m.Value.Kind() == snapshot.Null, Gone: !ok}
		if !c.New {
			c.Before = shownValue(m.Value)
		}
		if ok {
			c.After = shownValue(now)
		}
		list = append(list, c)
	}
	return list
}

// shownValue returns a string as it is and anything else as JSON.
func shownValue(v snapshot.Value) string {
	text := v.String()
	if v.Kind() == snapshot.String && v.Text() != "" {
		text = v.Text()
	}
	if utf8.RuneCountInString(text) > changeRunesMax {
		return string([]rune(text)[:changeRunesMax]) + "…"
	}
	return text
}
