package admin

import (
	"context"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// Config configures a Server; handlers.Config describes the fields.
type Config struct {
	Settings       func() []Setting
	Status         func(context.Context) ServerStatus
	Doctor         func(ctx context.Context, depth Depth, tell func(Finding))
	Alarms         *Alarms
	KeyFingerprint string
	Recipients     []string
}

// Server answers the commands of the operator.
type Server struct {
	site *web.Site
	api  *api.Server

	Settings    func() []Setting
	Status      func(context.Context) ServerStatus
	Doctor      func(ctx context.Context, depth Depth, tell func(Finding))
	Alarms      *Alarms
	started     time.Time
	fingerprint string // of the server key, or ""
	recipients  []string
}

// New returns a Server. It starts nothing.
func New(site *web.Site, of *api.Server, c Config) *Server {
	return &Server{site: site, api: of, Settings: c.Settings, Status: c.Status, Doctor: c.Doctor, Alarms: c.Alarms, started: site.Store.Now(), fingerprint: c.KeyFingerprint, recipients: c.Recipients}
}

// Mount adds the routes. The store writes the audit line of a change in the change's transaction.
func (s *Server) Mount(r *web.Router) {
	s.site.MountMonitoring(r, s.site.AdminReadyz)
	r.Get("/admin/info", s.info)

	s.mountCalls(r)

	r.Get("/admin/sessions", s.listSessions)
	r.On("POST", "/admin/sessions/:id/revoke", s.revokeSession)
	r.On("POST", "/admin/session-revoke", s.revokeSessions)
	r.On("POST", "/admin/token-inspect", s.inspectToken)
	r.On("POST", "/admin/token-revoke", s.revokeToken)

	r.Get("/admin/events", s.listEvents)
	r.On("POST", "/admin/events", s.recordEvent)
	r.On("POST", "/admin/events/import", s.importEvents)
	r.On("POST", "/admin/import", s.importLines)
	r.Get("/admin/events/:id", s.findEvent)
	r.Get("/admin/event-export", s.exportEvents) // under events/ it would collide with :id
	r.On("POST", "/admin/event-purge", s.purgeEvents)

	s.api.MountWebhooks(r)
	r.On("POST", "/admin/webhook-hold", s.holdWebhooks)
	r.On("POST", "/admin/webhook-resume", s.resumeWebhooks)

	r.Get("/admin/export", s.exportLines)
	r.Get("/admin/stats", s.showStats)
	r.Get("/admin/backup", s.backup)
	r.On("POST", "/admin/backup", s.backedUp)
	if s.Settings != nil {
		r.Get("/admin/settings", s.showSettings)
	}
	if s.Status != nil {
		r.Get("/admin/status", s.showStatus)
	}
	if s.Doctor != nil {
		r.Get("/admin/doctor", s.runDoctor)
	}
	if s.Alarms != nil {
		r.On("POST", "/admin/alarm-test", s.testAlarms)
		r.Get("/admin/alarms", s.listAlarms)
	}
}
