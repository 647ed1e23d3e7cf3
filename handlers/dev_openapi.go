package handlers

import (
	_ "embed"
	"net/http"

	"tollhouse/store/snapshot"
)

// devOpenAPISource describes the testers' controls. /openapi.json leaves them out: they
// do not belong into clients that are generated for the product.
//
//go:embed dev_openapi.json
var devOpenAPISource []byte

func (s *Server) devDescriptionEndpoints() []devEndpoint {
	return []devEndpoint{{method: "GET", path: "/openapi.json", does: "describes these endpoints (OpenAPI 3.1)",
		serve: func(w http.ResponseWriter, r *http.Request) error {
			writeBody(w, http.StatusOK, asJSON, s.describeDev(s.programsURL(r)))
			return nil
		}}}
}

// describeDev returns the description of the controls at the URL.
func (s *Server) describeDev(url string) []byte {
	d := withText(parsed(devOpenAPISource), s.version, "info", "version")
	d = withMember(d, snapshot.ArrayOf(withText(snapshot.ObjectOf(), url, "url")), "servers")
	return append(d.Append(nil), '\n')
}
