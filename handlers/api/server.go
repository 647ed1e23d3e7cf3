package api

import (
	"sync/atomic"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/webhook/target"
)

// Config configures a Server.
type Config struct {
	// Webhooks is the sender of webhooks; nil if this process has none.
	Webhooks Webhooks
	// WebhookRules judge the URLs of webhook endpoints; nil allows only public addresses.
	WebhookRules *target.Rules
}

// Server answers programs that hold an access token.
type Server struct {
	site      *web.Site
	Described descriptions

	Kept           *keptPages
	Draining       chan struct{} // closed to end streams and long polls
	HeartbeatEvery time.Duration // on an idle stream
	SearchFor      time.Duration // a row for an empty page

	Webhooks     Webhooks
	webhookRules *target.Rules
	webhookTests *webhookTests

	waiting *atOnce      // requests of platform clients, by client
	pausing atomic.Int64 // readers between two searches
}

// New returns a Server. It starts nothing.
func New(site *web.Site, c Config) *Server {
	if c.WebhookRules == nil {
		c.WebhookRules = &target.Rules{}
	}
	return &Server{
		site: site, Kept: NewKeptPages(), Draining: make(chan struct{}), HeartbeatEvery: HeartbeatEvery, SearchFor: searchFor,
		Webhooks: c.Webhooks, webhookRules: c.WebhookRules, webhookTests: newWebhookTests(site.Store.Now), waiting: newAtOnce(waitingMax),
	}
}

// Mount adds the routes.
func (s *Server) Mount(r *web.Router) {
	r.Get("/api/events", s.bearer(store.ScopeEventsRead, s.listEvents))
	r.Get("/api/events/:id", s.reading(s.keysOfEvent, s.bearer(store.ScopeEventsRead, s.findEvent)))
	r.Get("/api/event-types", s.bearer(store.ScopeEventsRead, s.listEventTypes))
	r.Get("/api/resources/:kind", s.bearer(store.ScopeResourcesRead, s.listResources))
	r.Get("/api/resources/:kind/:id", s.reading(keysOfResource, s.bearer(store.ScopeResourcesRead, s.findResource)))
	r.On("PUT", "/api/resources/:kind/:id", s.bearer(store.ScopeResourcesWrite, s.site.AsChange(s.putResource)))
	r.On("PATCH", "/api/resources/:kind/:id", s.bearer(store.ScopeResourcesWrite, s.site.AsChange(s.patchResource)))
	r.On("DELETE", "/api/resources/:kind/:id", s.bearer(store.ScopeResourcesWrite, s.site.AsChange(s.deleteResource)))

	mountWebhooks(r, "/api", s.readsWebhooks, s.writesWebhooks, s.endsWebhooks)
	r.Get(web.OpenAPIPath, s.openAPI)
}

// MountWebhooks adds the operators' routes of webhook endpoints below /admin. The changes
// write their own audit lines.
func (s *Server) MountWebhooks(r *web.Router) {
	mountWebhooks(r, "/admin", s.ofOperator, s.ofOperator, s.ofOperator)
}

func mountWebhooks(r *web.Router, below string, reads, writes, ends func(webhookHandler) web.Handler) {
	all := below + "/webhook-endpoints"
	one := all + "/:id"
	r.Get(all, reads(listWebhooks))
	r.On("POST", all, writes(createWebhook))
	r.Get(one, reads(findWebhook))
	r.On("PATCH", one, writes(updateWebhook))
	r.On("DELETE", one, ends(deleteWebhook))
	r.On("POST", one+"/enable", writes(enableWebhook))
	r.On("POST", one+"/disable", ends(disableWebhook))
	r.On("POST", one+"/skip", writes(skipWebhook))
	r.On("POST", one+"/rotate-secret", writes(rotateWebhook))
	r.On("POST", one+"/test", writes(testWebhook))
	r.On("POST", one+"/retry", writes(retryWebhook))
	r.Get(one+"/deliveries", reads(listDeliveries))
}
