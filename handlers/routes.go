package handlers

import (
	"net/http"

	"tollhouse/store"
)

// publicRoutes are the routes that anybody may reach.
func (s *Server) publicRoutes() http.Handler {
	r := s.newRouter()

	r.postFromClients("/oauth/v2/token", s.token)
	r.postFromClients("/oauth/v2/revoke", s.revoke)
	r.on("POST", "/oauth/v2/introspect", s.introspect)
	r.getFromAnywhere(metadataPath, s.metadata)
	r.page("GET", "/oauth/v2/auth", s.authorize)
	r.page("HEAD", "/oauth/v2/auth", s.authorize)

	r.page("GET", "/login", s.loginForm)
	r.page("HEAD", "/login", s.loginForm)
	r.page("POST", "/login", s.login)
	r.page("GET", "/new-password", s.newPassword)
	r.page("HEAD", "/new-password", s.newPassword)
	r.page("POST", "/new-password", s.setNewPassword)
	r.page("POST", "/consent", s.consent)
	r.page("POST", "/logout", s.logout)
	r.page("GET", "/account", s.account)
	r.page("HEAD", "/account", s.account)
	r.page("POST", "/account/revoke", s.revokeClient)
	r.page("POST", "/account/sign-out-others", s.signOutOthers)
	r.page("POST", "/account/password", s.changePassword)
	r.page("GET", "/docs", s.docs)
	r.page("HEAD", "/docs", s.docs)
	r.page("GET", "/docs/:tag", s.docsOfTag)
	r.page("HEAD", "/docs/:tag", s.docsOfTag)
	r.page("GET", "/", s.home)
	r.page("HEAD", "/", s.home)

	r.getFromAnywhere("/api/events", s.bearer(store.ScopeEventsRead, s.listEvents))
	r.getFromAnywhere("/api/events/:id", s.bearer(store.ScopeEventsRead, s.findEvent))
	r.getFromAnywhere("/api/event-types", s.bearer(store.ScopeEventsRead, s.listEventTypes))
	r.get("/api/resources/:kind", s.bearer(store.ScopeResourcesRead, s.listResources))
	r.get("/api/resources/:kind/:id", s.bearer(store.ScopeResourcesRead, s.findResource))
	r.on("PUT", "/api/resources/:kind/:id", s.bearer(store.ScopeResourcesWrite, s.putResource))
	r.on("PATCH", "/api/resources/:kind/:id", s.bearer(store.ScopeResourcesWrite, s.patchResource))
	r.on("DELETE", "/api/resources/:kind/:id", s.bearer(store.ScopeResourcesWrite, s.deleteResource))

	r.get("/api/webhook-endpoints", s.readsWebhooks(listWebhooks))
	r.on("POST", "/api/webhook-endpoints", s.writesWebhooks(createWebhook))
	r.get("/api/webhook-endpoints/:id", s.readsWebhooks(findWebhook))
	r.on("PATCH", "/api/webhook-endpoints/:id", s.writesWebhooks(updateWebhook))
	r.on("DELETE", "/api/webhook-endpoints/:id", s.writesWebhooks(deleteWebhook))
	r.on("POST", "/api/webhook-endpoints/:id/enable", s.writesWebhooks(enableWebhook))
	r.on("POST", "/api/webhook-endpoints/:id/disable", s.writesWebhooks(disableWebhook))
	r.on("POST", "/api/webhook-endpoints/:id/skip", s.writesWebhooks(skipWebhook))
	r.on("POST", "/api/webhook-endpoints/:id/rotate-secret", s.writesWebhooks(rotateWebhook))
	r.on("POST", "/api/webhook-endpoints/:id/test", s.writesWebhooks(testWebhook))
	r.on("POST", "/api/webhook-endpoints/:id/retry", s.writesWebhooks(retryWebhook))
	r.get("/api/webhook-endpoints/:id/deliveries", s.readsWebhooks(listDeliveries))

	r.get("/static/*name", s.static)
	r.getFromAnywhere(openAPIPath, s.openAPI)
	r.get("/healthz", s.healthz)
	r.get("/readyz", s.readyz)

	if s.demo != nil {
		r.page("GET", "/callback", s.callback)
		r.page("HEAD", "/callback", s.callback)
	}
	s.devRoutes(r)
	return s.withDevOrigin(r.withCORS(s.withFaults(r, withGzip(s.withDesk(r)))))
}

// adminRoutes need no credentials: only the operator can reach their listener.
func (s *Server) adminRoutes() http.Handler {
	r := s.newRouter()
	r.toOperators = true
	s.addMonitoring(r, s.adminReadyz)
	r.get("/admin/info", s.adminInfo)

	r.get("/admin/clients", s.adminListClients)
	r.on("POST", "/admin/clients", s.audited("client created", s.adminCreateClient))
	r.get("/admin/clients/:id", s.adminFindClient)
	r.on("PATCH", "/admin/clients/:id", s.audited("client updated", s.adminUpdateClient))
	r.on("DELETE", "/admin/clients/:id", s.audited("client deleted", s.adminDeleteClient))
	r.on("POST", "/admin/clients/:id/rotate-secret", s.audited("client secret rotated", s.adminRotateClientSecret))
	r.on("POST", "/admin/clients/:id/disable", s.audited("client disabled", s.adminDisableClient))
	r.on("POST", "/admin/clients/:id/enable", s.audited("client enabled", s.adminEnableClient))

	r.get("/admin/users", s.adminListUsers)
	r.on("POST", "/admin/users", s.adminCreateUser)
	r.get("/admin/users/:id", s.adminFindUser)
	r.on("DELETE", "/admin/users/:id", s.audited("user deleted", s.adminDeleteUser))
	r.on("POST", "/admin/users/:id/password", s.audited("password set", s.adminSetPassword))
	r.on("POST", "/admin/users/:id/disable", s.audited("user disabled", s.adminDisableUser))
	r.on("POST", "/admin/users/:id/enable", s.audited("user enabled", s.adminEnableUser))
	r.on("POST", "/admin/users/:id/promote", s.audited("user promoted", s.adminPromoteUser))
	r.on("POST", "/admin/users/:id/demote", s.audited("user demoted", s.adminDemoteUser))
	r.on("POST", "/admin/users/:id/code", s.audited(codeMade, s.adminCreateUserCode))
	r.on("POST", "/admin/users/:id/revoke-sessions", s.adminRevokeSessions)

	r.get("/admin/sessions", s.adminListSessions) // these write their own audit lines
	r.on("POST", "/admin/sessions/:id/revoke", s.adminRevokeSession)
	r.get("/admin/families", s.adminListFamilies)
	r.on("POST", "/admin/families/:id/revoke", s.adminRevokeFamily)
	r.on("POST", "/admin/token-inspect", s.adminInspectToken)
	r.on("POST", "/admin/token-revoke", s.adminRevokeToken)

	r.get("/admin/accounts", s.adminListAccounts)
	r.on("POST", "/admin/accounts", s.audited("account created", s.adminCreateAccount))
	r.get("/admin/accounts/:id", s.adminFindAccount)
	r.on("DELETE", "/admin/accounts/:id", s.audited("account deleted", s.adminDeleteAccount))

	r.get("/admin/events", s.adminListEvents)
	r.on("POST", "/admin/events", s.audited("event recorded", s.adminRecordEvent))
	r.on("POST", "/admin/events/import", s.adminImportEvents)
	r.get("/admin/events/:id", s.adminFindEvent)
	r.get("/admin/webhook-endpoints", s.ofOperator(listWebhooks)) // the changes write their own audit lines
	r.on("POST", "/admin/webhook-endpoints", s.ofOperator(createWebhook))
	r.get("/admin/webhook-endpoints/:id", s.ofOperator(findWebhook))
	r.on("PATCH", "/admin/webhook-endpoints/:id", s.ofOperator(updateWebhook))
	r.on("DELETE", "/admin/webhook-endpoints/:id", s.ofOperator(deleteWebhook))
	r.on("POST", "/admin/webhook-endpoints/:id/enable", s.ofOperator(enableWebhook))
	r.on("POST", "/admin/webhook-endpoints/:id/disable", s.ofOperator(disableWebhook))
	r.on("POST", "/admin/webhook-endpoints/:id/skip", s.ofOperator(skipWebhook))
	r.on("POST", "/admin/webhook-endpoints/:id/rotate-secret", s.ofOperator(rotateWebhook))
	r.on("POST", "/admin/webhook-endpoints/:id/test", s.ofOperator(testWebhook))
	r.on("POST", "/admin/webhook-endpoints/:id/retry", s.ofOperator(retryWebhook))
	r.get("/admin/webhook-endpoints/:id/deliveries", s.ofOperator(listDeliveries))
	r.on("POST", "/admin/webhook-hold", s.adminHoldWebhooks)
	r.on("POST", "/admin/webhook-resume", s.adminResumeWebhooks)

	r.get("/admin/audit", s.adminListAudit)
	r.get("/admin/stats", s.adminStats)
	r.get("/admin/event-export", s.adminExportEvents) // under events/ it would collide with :id
	r.on("POST", "/admin/event-purge", s.adminPurgeEvents)
	r.get("/admin/backup", s.adminBackup)
	r.on("POST", "/admin/backup", s.adminBackedUp)
	if s.status != nil {
		r.get("/admin/status", s.adminStatus)
	}
	if s.doctor != nil {
		r.get("/admin/doctor", s.adminDoctor)
	}
	return r
}
