package admin

import (
	"context"
	"net/http"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/webhook"
)

// holdWebhooks is POST /admin/webhook-hold.
func (s *Server) holdWebhooks(w http.ResponseWriter, r *http.Request) error {
	return s.setHold(w, r, s.site.Store.Webhooks.Hold)
}

// resumeWebhooks is POST /admin/webhook-resume.
func (s *Server) resumeWebhooks(w http.ResponseWriter, r *http.Request) error {
	return s.setHold(w, r, s.site.Store.Webhooks.Resume)
}

func (s *Server) setHold(w http.ResponseWriter, r *http.Request, do func(context.Context, webhook.By) (webhook.Instance, error)) error {
	if err := readAdminBody(w, r, &struct{}{}); err != nil {
		return err
	}
	h, err := do(r.Context(), web.WebhooksBy(r.Context()))
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, api.WebhookHold{Held: h.Held, Since: api.UnixOrNull(h.Since), Reason: h.Reason})
	return nil
}
