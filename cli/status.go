package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// serverStatus is how a server is, as it answers on its admin socket at
// statusPath. Only one that runs has it, so it is no part of the admin API of
// package handlers, which commands also use without a server.
type serverStatus struct {
	Status  string   `json:"status"`           // ready, or not ready
	Reason  string   `json:"reason,omitempty"` // why not
	URL     string   `json:"url"`
	Listen  []string `json:"listen"`
	Version string   `json:"version"`
	PID     int      `json:"pid"`
	Started int64    `json:"started"` // Unix seconds

	Store *storeStatus `json:"store,omitempty"` // not in memory
	Check *checkStatus `json:"check,omitempty"` // not before the first has ended

	Backup  *backupStatus   `json:"backup,omitempty"`  // not before the first was made
	Backups *scheduleStatus `json:"backups,omitempty"` // that the server makes by itself

	Certificate *certificateStatus `json:"certificate,omitempty"` // when the server speaks TLS
}

// backupStatus is the last backup, whoever made it.
type backupStatus struct {
	Created   int64  `json:"created"` // Unix seconds
	File      string `json:"file"`    // or - when it was sent on
	Bytes     uint64 `json:"bytes"`
	Records   uint64 `json:"records"`
	Scheduled bool   `json:"scheduled"`
}

// scheduleStatus says which backups the server makes by itself.
type scheduleStatus struct {
	Every int64  `json:"every_seconds"`
	Keep  int    `json:"keep"`
	Dir   string `json:"dir"`
}

// storeStatus is what the store takes on disk, in bytes.
type storeStatus struct {
	Used    uint64 `json:"used_bytes"`
	Free    uint64 `json:"free_bytes"`
	FreeMin uint64 `json:"free_min_bytes"` // under it writes are refused
}

// checkStatus is the last search for damage at rest.
type checkStatus struct {
	Ended  int64   `json:"ended"` // Unix seconds
	Took   float64 `json:"took_seconds"`
	Damage string  `json:"damage,omitempty"` // what it found
}

const (
	statusPath    = "/admin/status"
	stateReady    = "ready"
	stateNotReady = "not ready"
)

// withStatus answers statusPath before the admin API.
func (r *running) withStatus(admin http.Handler) http.Handler {
	started := time.Now().Unix()
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != statusPath || q.Method != http.MethodGet {
			admin.ServeHTTP(w, q)
			return
		}
		s := r.status(q.Context())
		s.Started = started
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(s); err != nil {
			r.log.Warn("status not sent", "err", err)
		}
	})
}

func (r *running) status(ctx context.Context) serverStatus {
	s := serverStatus{Status: stateReady, URL: r.server.Issuer(), Listen: addressesOf(r.listeners), Version: version(), PID: os.Getpid()}
	err := r.ready()
	if err == nil {
		err = r.keep.store.Check(ctx)
	}
	if err != nil {
		s.Status, s.Reason = stateNotReady, err.Error()
	}
	if space, ok, err := r.keep.db.Space(); ok && err == nil {
		s.Store = &storeStatus{Used: space.Used, Free: space.Free, FreeMin: space.FreeMin}
	}
	if c := r.checked.Load(); c != nil {
		s.Check = &checkStatus{Ended: c.ended.Unix(), Took: c.took.Seconds()}
		if damage := r.damage.Load(); damage != nil {
			s.Check.Damage = (*damage).Error()
		}
	}
	if made, err := r.keep.store.LastBackup(ctx); err == nil {
		s.Backup = &backupStatus{Created: made.Created.Unix(), File: made.File, Bytes: made.Bytes, Records: made.Records, Scheduled: made.Scheduled}
	}
	if b := r.backups; b != nil {
		s.Backups = &scheduleStatus{Every: int64(b.every.Seconds()), Keep: b.keep, Dir: b.dir}
	}
	if r.certificates != nil {
		c := r.certificates.status()
		s.Certificate = &c
	}
	return s
}

func (p *program) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "show at a glance how the server and its store are",
		Long: `Show at a glance how the server and its store are: whether it is ready and why not,
what the disk holds, and what the last search for damage found. It asks the server
that runs on the data directory; exit 0 when that is ready, 1 when it is not, 69 when
there is none.

  tollhouse status --data /var/lib/tollhouse
  tollhouse status --json`,
		Args: operands(),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			a, err := p.connectRunning(ctx)
			if err != nil {
				return err
			}
			defer a.close()
			var s serverStatus
			if err := a.call(ctx, "GET", statusPath, nil, &s); err != nil {
				return err
			}
			if p.json {
				err = p.printJSON(s)
			} else {
				err = p.printRows(s.rows(time.Now())...)
			}
			if err == nil && s.Status != stateReady {
				return fail(exitFailed, "its log says more", "the server is not ready: %s", s.Reason)
			}
			return err
		}),
	}
}

func (s serverStatus) rows(now time.Time) []row {
	started := time.Unix(s.Started, 0)
	rows := []row{
		{"server", s.Status}, {"url", s.URL}, {"listens on", strings.Join(s.Listen, " ")}, {"version", s.Version},
		{"process", fmt.Sprintf("%d, since %s (%s)", s.PID, showTime(s.Started), now.Sub(started).Round(time.Second))},
	}
	if s.Certificate != nil {
		rows = append(rows, row{"certificate", s.Certificate.describe(now)})
	}
	if s.Store == nil {
		return append(rows, row{"store", "in memory"})
	}
	disk := fmt.Sprintf("%s, %s free", showBytes(s.Store.Used), showBytes(s.Store.Free))
	if s.Store.Free < s.Store.FreeMin {
		disk += fmt.Sprintf(": writes are refused under %s", showBytes(s.Store.FreeMin))
	}
	check := "not ended yet"
	if c := s.Check; c != nil {
		check = showTime(c.Ended) + ", no damage"
		if c.Damage != "" {
			check = showTime(c.Ended) + ", damage: " + c.Damage
		}
	}
	rows = append(rows, row{"store", disk}, row{"last check", check}, row{"last backup", s.Backup.show()})
	if b := s.Backups; b != nil {
		every := lifetime(time.Duration(b.Every) * time.Second)
		rows = append(rows, row{"backups", fmt.Sprintf("every %s into %s, of which %d are kept", &every, b.Dir, b.Keep)})
	}
	return rows
}

// show tells a person of the last backup, if there is one.
func (b *backupStatus) show() string {
	if b == nil {
		return "none was made"
	}
	where := b.File
	if where == "-" {
		where = "sent on through standard output"
	}
	return fmt.Sprintf("%s, %s, %s", showTime(b.Created), showBytes(b.Bytes), where)
}

// showBytes shows a size to a person.
func showBytes(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, units := float64(n)/(1<<10), "KMGTPE"
	for size >= 1<<10 {
		size, units = size/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", size, units[0])
}
