package admin

import (
	"net/http"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// ServerStatus is the answer of GET /admin/status.
type ServerStatus struct {
	Status  string   `json:"status"`           // StateReady or StateNotReady
	Reason  string   `json:"reason,omitempty"` // why it is not ready
	URL     string   `json:"url"`
	Listen  []string `json:"listen"`
	Version string   `json:"version"`
	PID     int      `json:"pid"`
	Started int64    `json:"started"` // Unix seconds

	Store *StoreStatus `json:"store,omitempty"` // nil for a store in memory or in a database

	Database *DatabaseStatus `json:"database,omitempty"`

	Check *CheckStatus `json:"check,omitempty"` // nil until the first check has ended

	Backup  *BackupStatus   `json:"backup,omitempty"`  // the last backup, if any
	Backups *ScheduleStatus `json:"backups,omitempty"` // nil without scheduled backups

	Certificate *CertificateStatus `json:"certificate,omitempty"` // nil without TLS

	Webhooks *WebhooksStatus `json:"webhooks,omitempty"` // nil if it cannot be read

	Imported *ImportedStatus `json:"imported_hashes,omitempty"` // nil if there are none
}

// The states of a server, and of one finding.
const (
	StateReady    = "ready"
	StateNotReady = "not ready"

	StateOK      = "ok"
	StateWarning = "warning"
	StateProblem = "problem"
)

// StoreStatus is the disk space of the store, in bytes.
type StoreStatus struct {
	Used    uint64 `json:"used_bytes"`
	Free    uint64 `json:"free_bytes"`
	FreeMin uint64 `json:"free_min_bytes"` // below it changes are refused
	FreeEnd uint64 `json:"free_end_bytes"` // below it everything is, also what operators end
}

// DatabaseStatus is a database and the servers that live on it.
type DatabaseStatus struct {
	Version  string          `json:"version"`    // of PostgreSQL
	Size     int64           `json:"size_bytes"` // of the records with their indexes
	Standbys []StandbyStatus `json:"standbys"`
	Servers  []PeerStatus    `json:"servers"`
}

// StandbyStatus is a standby of the database. What the user may not see is "".
type StandbyStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Sync  string `json:"sync"`
}

// PeerStatus is one of the servers on a database.
type PeerStatus struct {
	Host    string   `json:"host"`
	PID     int      `json:"pid"`
	Version string   `json:"version"`
	Listen  []string `json:"listen"`
	Started int64    `json:"started"` // Unix seconds
	Jobs    []string `json:"jobs"`
}

// WebhooksStatus are the webhook endpoints of all accounts.
type WebhooksStatus struct {
	Endpoints int  `json:"endpoints"`
	Failing   int  `json:"failing"`
	Disabled  int  `json:"disabled"`
	Parked    int  `json:"parked"` // events set aside, which are tried again
	Dead      int  `json:"dead"`   // events set aside, which are not
	Held      bool `json:"held"`
	// OldestUndelivered is the age of the oldest event that waits for an enabled endpoint.
	OldestUndelivered int64 `json:"oldestUndeliveredSeconds"`
}

// ImportedStatus are the users who still have a password hash of another system.
type ImportedStatus struct {
	Users  uint64         `json:"users"`
	Oldest int64          `json:"oldest"` // Unix seconds of the day of their import
	Kinds  []ImportedKind `json:"kinds"`
}

// ImportedKind is how many of them have a hash of one kind.
type ImportedKind struct {
	Kind    string `json:"kind"`
	Wrapped bool   `json:"wrapped"`
	Users   uint64 `json:"users"`
}

// CheckStatus is the last search for damage at rest.
type CheckStatus struct {
	Ended  int64   `json:"ended"` // Unix seconds
	Took   float64 `json:"took_seconds"`
	Damage string  `json:"damage,omitempty"`
}

// BackupStatus is the last backup.
type BackupStatus struct {
	Created   int64  `json:"created"` // Unix seconds
	File      string `json:"file"`    // or - for standard output
	Bytes     uint64 `json:"bytes"`
	Records   uint64 `json:"records"`
	Scheduled bool   `json:"scheduled"`
	Encrypted bool   `json:"encrypted"`
}

// ScheduleStatus is the schedule of backups.
type ScheduleStatus struct {
	Every int64  `json:"every_seconds"`
	Keep  int    `json:"keep"`
	Dir   string `json:"dir"`
}

// CertificateStatus is the certificate in use.
type CertificateStatus struct {
	Source    string   `json:"source"`            // files or acme
	Names     []string `json:"names"`             // of the certificate, or wanted for it
	NotBefore int64    `json:"not_before"`        // Unix seconds; 0 without one
	Expires   int64    `json:"expires"`           // like NotBefore
	Problem   string   `json:"problem,omitempty"` // why none, or no newer one, is served
}

// showStatus is GET /admin/status.
func (s *Server) showStatus(w http.ResponseWriter, r *http.Request) error {
	web.WriteJSON(w, http.StatusOK, s.Status(r.Context()))
	return nil
}

// showSettings is GET /admin/settings: those of this process, with secrets masked.
func (s *Server) showSettings(w http.ResponseWriter, _ *http.Request) error {
	web.WriteJSON(w, http.StatusOK, s.Settings())
	return nil
}

// Finding is one line of the answer of GET /admin/doctor.
type Finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // StateOK, StateWarning or StateProblem
	Detail string `json:"detail"`
	Next   string `json:"next,omitempty"` // what to do, unless it is ok
}

// Depth is how far doctor looks.
type Depth int

// The depths of doctor.
const (
	DepthKept  Depth = iota // for a page that is opened often: what takes a read of all users may be minutes old
	DepthUsual              // for a command
	DepthAll                // reads the whole store
)

// runDoctor is GET /admin/doctor: a line for each finding, as soon as it is known.
// With deep=true it reads the whole store, so it has no write deadline.
func (s *Server) runDoctor(w http.ResponseWriter, r *http.Request) error {
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", api.AsNDJSON)
	depth := DepthUsual
	if r.URL.Query().Get("deep") == "true" {
		depth = DepthAll
	}
	s.Doctor(r.Context(), depth, func(f Finding) {
		if _, err := w.Write(append(web.EncodeJSON(f), '\n')); err == nil {
			_ = c.Flush()
		}
	})
	return nil
}

// Setting is a setting of the server.
type Setting struct {
	Name     string `json:"name"`
	Value    string `json:"value"` // as its variable would say it
	From     string `json:"from"`  // flag, variable or default
	Variable string `json:"variable,omitempty"`
}
