package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/moving"
)

// exportLines is GET /admin/export?only=NOUN&account=A&secrets=true: what an import takes, as it is
// when the call begins. Like exportEvents it has a trailer that counts the lines, Tollhouse-Lines, and
// closes the connection if it fails.
func (s *Server) exportLines(w http.ResponseWriter, r *http.Request) error {
	spec, err := parseExportQuery(r)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		beginLines(w, r, "Tollhouse-Lines")
		return nil
	}
	export, err := s.site.Store.NewExport(r.Context(), spec)
	if errors.Is(err, store.ErrUnknownAccount) {
		return web.Absent("account", spec.Account, "tollhouse account list shows the accounts").Because(err)
	}
	if err != nil {
		return err
	}
	defer export.Close()
	beginLines(w, r, "Tollhouse-Lines")
	lines := streamLines(w, r, export.Next)
	w.Header().Set("Tollhouse-Lines", strconv.Itoa(lines))
	web.Note(r.Context(), slog.Int("lines", lines))
	return nil
}

func parseExportQuery(r *http.Request) (spec store.ExportSpec, err error) {
	pairs, refused := web.ParseAPIQuery(r.URL.RawQuery)
	if refused != nil {
		return spec, refused
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		if pair.Name != "only" && seen[pair.Name] {
			return spec, web.DuplicateParameter(pair.Name)
		}
		seen[pair.Name] = true
		switch pair.Name {
		case "only":
			if !slices.Contains(moving.Nouns(), pair.Value) {
				return spec, web.InvalidParameter("only", "must be one of %s.", strings.Join(moving.Nouns(), ", "))
			}
			spec.Nouns = append(spec.Nouns, pair.Value)
		case "account":
			if spec.Account = pair.Value; pair.Value == "" {
				return spec, web.InvalidParameter("account", "must be the id of an account.")
			}
		case "secrets":
			if pair.Value != "true" && pair.Value != "false" {
				return spec, web.InvalidParameter("secrets", "must be true or false.")
			}
			spec.Secrets = pair.Value == "true"
		default:
			return spec, web.UnknownParameter(pair.Name, nil, []string{"only", "account", "secrets"})
		}
	}
	return spec, nil
}
