package handlers

import (
	_ "embed"
	"net/http"
	"strings"

	"tollhouse/store/snapshot"
)

// devOpenAPISource describes the testers' controls. /openapi.json leaves them out: they
// do not belong into clients that are generated for the product.
//
//go:embed dev_openapi.json
var devOpenAPISource []byte

func (s *Server) devDescriptionEndpoints(r *router) []devEndpoint {
	return []devEndpoint{{method: "GET", path: "/openapi.json", does: "describes these endpoints (OpenAPI 3.1)",
		serve: func(w http.ResponseWriter, rq *http.Request) error {
			writeBody(w, http.StatusOK, asJSON, s.describeDev(r, s.programsURL(rq)))
			return nil
		}}}
}

// describeDev returns the description of the controls that the router has.
func (s *Server) describeDev(r *router, url string) []byte {
	d := withText(parsed(devOpenAPISource), s.version, "info", "version")
	d = withMember(d, snapshot.ArrayOf(withText(snapshot.ObjectOf(), url, "url")), "servers")
	var paths []snapshot.Member
	all, _ := d.Member("paths")
	for _, path := range all.Members() {
		if len(r.methodsAt(strings.NewReplacer("{", "", "}", "").Replace(path.Name))) > 0 {
			paths = append(paths, path)
		}
	}
	return append(withMember(d, snapshot.ObjectOf(paths...), "paths").Append(nil), '\n')
}
