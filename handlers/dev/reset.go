package dev

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// Controller resets, saves and restores the whole instance. A request that begins after
// one of its methods has returned sees the new state only.
type Controller interface {
	// Reset goes back to the beginning.
	Reset(ctx context.Context) error
	// Snapshot saves the state under a name, and reports whether the name was in use.
	// Errors: ErrTooManySnapshots.
	Snapshot(ctx context.Context, name string) (info SnapshotInfo, replaced bool, err error)
	// Restore goes back to a snapshot. Errors: ErrNoSnapshot.
	Restore(ctx context.Context, name string) error
	// Drop removes a snapshot. Errors: ErrNoSnapshot.
	Drop(name string) error
	DropAll()
	// Names returns the names of all snapshots, sorted.
	Names() []string
	// Resets counts resets and restores.
	Resets() int
	// Counts counts what the instance has stored.
	Counts(ctx context.Context) (DevCounts, error)
}

// SnapshotInfo describes a snapshot.
type SnapshotInfo struct {
	Clock  ClockState
	Events int
}

// DevCounts counts the records of an instance.
type DevCounts struct{ Clients, Users, Accounts, Events, Resources int }

// SnapshotsMax is how many snapshots a Controller keeps.
const SnapshotsMax = 32

// Errors of a Controller.
var (
	ErrNoSnapshot       = errors.New("no snapshot has this name")
	ErrTooManySnapshots = errors.New("there are as many snapshots as can be kept")
)

const (
	snapshotDefault     = "default"
	snapshotNameSizeMax = 64
)

func (s *Server) controlEndpoints() []devEndpoint {
	return []devEndpoint{
		{id: "showState", method: "GET", path: "/state", does: "counts what the instance has",
			answers: []devAnswer{{200, "The state.", "State"}},
			serve:   s.showDevState},
		{id: "saveSnapshot", method: "POST", path: "/snapshot", does: "saves the whole state under a name", body: `{"name":"paid"}`,
			takes: "SnapshotName", answers: []devAnswer{{201, "Saved.", "Snapshot"}, {200, "Saved in place of the one of that name.", "Snapshot"}}, refuses: []int{409},
			serve: s.saveSnapshot},
		{id: "restoreSnapshot", method: "POST", path: "/restore", does: "goes back to a snapshot", body: `{"name":"paid"}`,
			takes: "SnapshotName", refuses: []int{404},
			serve: s.restoreSnapshot},
		{id: "dropSnapshot", method: "DELETE", path: "/snapshots/:name", does: "removes a snapshot", example: "/snapshots/paid",
			refuses: []int{404},
			serve:   s.dropSnapshot},
		{id: "dropSnapshots", method: "DELETE", path: "/snapshots", does: "removes all snapshots", serve: s.dropSnapshots},
		{id: "resetInstance", method: "POST", path: "/reset", does: "goes back to the beginning, except for snapshots", serve: s.reset},
	}
}

var devControlForms = []api.Form{
	{Name: "State", Does: "What the instance has.", Example: `{"clock":{"now":"2026-06-01T12:00:00.000Z","unix":1780315200,"running":false},"clients":1,"users":1,"accounts":1,"events":100,"resources":35,"snapshots":["paid"],"faults":0,"requests":0,"notices":0,"resets":0,"rand_seed":7,"throttle":false,"strict_types":false}`, Members: []api.FormMember{
		{"clock", "Clock!", ""},
		{"clients", "integer!", "Clients."},
		{"users", "integer!", "Users."},
		{"accounts", "integer!", "Accounts."},
		{"events", "integer!", "Events of all accounts."},
		{"resources", "integer!", "Resources of all accounts."},
		{"faults", "integer!", "Faults that can still hit a request."},
		{"requests", "integer!", "Requests in the journal."},
		{"notices", "integer!", "Those of them that were answered with Tollhouse-Notice."},
		{"resets", "integer!", "Resets and restores since the start."},
		{"snapshots", "[]string!", "Names of the snapshots."},
		{"rand_seed", "integer|null!", "The value of --rand-seed."},
		{"throttle", "boolean!", "Whether --throttle was given."},
		{"strict_types", "boolean!", "Whether --strict-types was given."},
	}},
	{Name: "SnapshotName", Does: "A snapshot.", Closed: true, Members: []api.FormMember{
		{"name", "string", "default when it is missing.", `"pattern":"^[a-z0-9_-]{1,64}$"`},
	}},
	{Name: "Snapshot", Does: "A saved state.", Example: `{"name":"paid","clock":{"now":"2026-06-01T12:00:00.000Z","unix":1780315200,"running":false},"events":100}`, Members: []api.FormMember{
		{"name", "string!", "Its name."},
		{"clock", "Clock!", ""},
		{"events", "integer!", "Events of all accounts."},
	}},
}

// devState is the answer of GET /_dev/state.
type devState struct {
	Clock       shownClock `json:"clock"`
	Clients     int        `json:"clients"`
	Users       int        `json:"users"`
	Accounts    int        `json:"accounts"`
	Events      int        `json:"events"`
	Resources   int        `json:"resources"`
	Snapshots   []string   `json:"snapshots"`
	Faults      int        `json:"faults"` // that can still hit a request
	Requests    int        `json:"requests"`
	Notices     int        `json:"notices"`
	Resets      int        `json:"resets"`
	RandSeed    *uint64    `json:"rand_seed"`
	Throttle    bool       `json:"throttle"`
	StrictTypes bool       `json:"strict_types"`
}

// showDevState is GET /_dev/state.
func (s *Server) showDevState(w http.ResponseWriter, r *http.Request) error {
	count, err := s.controls.Control.Counts(r.Context())
	if err != nil {
		return err
	}
	requests, notices := s.controls.Journal.Count()
	web.WriteJSON(w, http.StatusOK, devState{
		Clock:   showClockState(s.controls.Clock.State()),
		Clients: count.Clients, Users: count.Users, Accounts: count.Accounts, Events: count.Events, Resources: count.Resources,
		Snapshots: append([]string{}, s.controls.Control.Names()...), Faults: s.controls.Faults.CountLive(), Requests: requests, Notices: notices, Resets: s.controls.Control.Resets(),
		RandSeed: s.controls.RandSeed, Throttle: s.controls.Throttle, StrictTypes: s.controls.StrictTypes,
	})
	return nil
}

// reset is POST /_dev/reset.
func (s *Server) reset(w http.ResponseWriter, r *http.Request) error {
	if err := readDevBody(w, r, &struct{}{}); err != nil {
		return err
	}
	if err := s.controls.Control.Reset(r.Context()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// saveSnapshot is POST /_dev/snapshot.
func (s *Server) saveSnapshot(w http.ResponseWriter, r *http.Request) error {
	name, err := snapshotNameIn(w, r)
	if err != nil {
		return err
	}
	info, replaced, err := s.controls.Control.Snapshot(r.Context(), name)
	if errors.Is(err, ErrTooManySnapshots) {
		return web.NewProblem(http.StatusConflict, "conflict", "There are %d snapshots already; remove one with DELETE /_dev/snapshots/NAME.", SnapshotsMax).Because(err)
	}
	if err != nil {
		return err
	}
	status := http.StatusCreated
	if replaced {
		status = http.StatusOK
	}
	web.WriteJSON(w, status, struct {
		Name   string     `json:"name"`
		Clock  shownClock `json:"clock"`
		Events int        `json:"events"`
	}{name, showClockState(info.Clock), info.Events})
	return nil
}

// restoreSnapshot is POST /_dev/restore.
func (s *Server) restoreSnapshot(w http.ResponseWriter, r *http.Request) error {
	name, err := snapshotNameIn(w, r)
	if err != nil {
		return err
	}
	if err := s.controls.Control.Restore(r.Context(), name); err != nil {
		return s.snapshotProblem(err, name)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// dropSnapshot is DELETE /_dev/snapshots/NAME.
func (s *Server) dropSnapshot(w http.ResponseWriter, r *http.Request) error {
	name := web.PathParam(r, "name")
	if err := s.controls.Control.Drop(name); err != nil {
		return s.snapshotProblem(err, name)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// dropSnapshots is DELETE /_dev/snapshots.
func (s *Server) dropSnapshots(w http.ResponseWriter, _ *http.Request) error {
	s.controls.Control.DropAll()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// snapshotNameIn returns the name in the body, or the default.
func snapshotNameIn(w http.ResponseWriter, r *http.Request) (string, error) {
	var ask struct {
		Name *string `json:"name"`
	}
	if err := readDevBody(w, r, &ask); err != nil {
		return "", err
	}
	if ask.Name == nil {
		return snapshotDefault, nil
	}
	isWrong := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-')
	}
	if name := *ask.Name; name == "" || len(name) > snapshotNameSizeMax || strings.ContainsFunc(name, isWrong) {
		return "", web.InvalidRequest("name must have 1 to %d of the characters a-z, 0-9, _ and -.", snapshotNameSizeMax).On("name")
	}
	return *ask.Name, nil
}

func (s *Server) snapshotProblem(err error, name string) error {
	if !errors.Is(err, ErrNoSnapshot) {
		return err
	}
	known := "None is saved."
	if names := s.controls.Control.Names(); len(names) > 0 {
		known = "Saved: " + strings.Join(names, ", ") + "."
	}
	return web.NewProblem(http.StatusNotFound, "not_found", "Unknown snapshot %s. %s", web.ShownName(name), known).On("name").Because(err)
}
