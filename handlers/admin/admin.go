package admin

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"tollhouse/handlers/web"
)

// The admin API serves the command line: JSON over a socket that only the operator
// can reach, or in the command's own process. Secrets are sent in bodies, never in
// URLs, and are returned only once.

const adminDepthMax = 3 // nesting of a body

// AdminInfo is the answer of GET /admin/info.
type AdminInfo struct {
	Mode     string `json:"mode"`    // serve or dev
	Account  string `json:"account"` // when a request names none
	URL      string `json:"url"`
	Version  string `json:"version"`
	Instance string `json:"instance"`
	Now      int64  `json:"now"` // Unix seconds

	// BackupRecipients are the public keys for which the server encrypts its backups.
	BackupRecipients []string `json:"backup_recipients,omitempty"`
}

// info is GET /admin/info.
func (s *Server) info(w http.ResponseWriter, _ *http.Request) error {
	mode := "serve"
	if s.site.Demo != nil {
		mode = "dev"
	}
	web.WriteJSON(w, http.StatusOK, AdminInfo{mode, s.api.DefaultAccount(), s.site.PublicURL(), s.site.Version, s.site.Store.InstanceID(), s.site.Store.Now().Unix(), s.recipients})
	return nil
}

// readAdminBody decodes the body of an admin request into to. Unknown members are
// refused, so that a misspelt setting is not silently lost. An empty body counts
// as an empty object.
func readAdminBody(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := web.ReadJSON(w, r, true)
	if err != nil || body == nil {
		return err
	}
	return web.DecodeStrictly(body, adminDepthMax, to)
}

// NameIn returns the name in the path. It is decoded twice, because the router
// splits the path after decoding once and a name may contain a slash.
func NameIn(r *http.Request) (string, error) {
	name, err := url.PathUnescape(web.PathParam(r, "id"))
	if err != nil || !web.IsText(name) {
		return "", web.InvalidRequest("The name in the path is not percent-encoded text; a percent sign in a name is written as %%2525.")
	}
	return name, nil
}

// takeTime lifts the deadlines of a request whose work grows with the stored data,
// such as a deletion. Only the operator can reach this socket. A command that opens the
// store itself has no connection.
func takeTime(w http.ResponseWriter) { takeUntil(w, time.Time{}) }

// platformTimeMax is how long such a request of a platform client may take: a connection over the
// network is not held for ever. A deletion that takes longer is repeated, and continues.
const platformTimeMax = 10 * time.Minute

// takeTime is takeTime for the caller.
func (c *call) takeTime() {
	if c.isMachine() {
		takeTime(c.w)
		return
	}
	takeUntil(c.w, time.Now().Add(platformTimeMax))
}

func takeUntil(w http.ResponseWriter, deadline time.Time) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(deadline)
	_ = c.SetWriteDeadline(deadline)
}

// noteAdmin adds the object to the request's log line.
func noteAdmin(r *http.Request, name, value string) {
	web.Note(r.Context(), slog.String(name, value))
}
