package handlers

import (
	"encoding/json"
	"net/http"
	"time"
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
	FreeMin uint64 `json:"free_min_bytes"` // below it writes are refused
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

// adminStatus is GET /admin/status.
func (s *Server) adminStatus(w http.ResponseWriter, r *http.Request) error {
	writeJSON(w, http.StatusOK, s.status(r.Context()))
	return nil
}

// Finding is one line of the answer of GET /admin/doctor.
type Finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // StateOK, StateWarning or StateProblem
	Detail string `json:"detail"`
	Next   string `json:"next,omitempty"` // what to do, unless it is ok
}

// adminDoctor is GET /admin/doctor: a line for each finding, as soon as it is known.
// With deep=true it reads the whole store, so it has no write deadline.
func (s *Server) adminDoctor(w http.ResponseWriter, r *http.Request) error {
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", ndjsonType)
	lines := json.NewEncoder(w)
	s.doctor(r.Context(), r.URL.Query().Get("deep") == "true", func(f Finding) {
		if lines.Encode(f) == nil {
			_ = c.Flush()
		}
	})
	return nil
}
