package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tollhouse/store"
)

const (
	checkedClients = 500 // read in one page
	shownClients   = 5
)

// clients reports what an import allowed of clients: secrets that are easy to guess, and redirect
// URIs that are plain http. It reports nothing if there are none.
func (u checkup) clients(ctx context.Context) {
	const check = "clients"
	var short, plain []string
	for after := ""; ; {
		page, err := u.data.Store.ListClients(ctx, after, checkedClients)
		if err != nil {
			u.report(problemReading(check, err))
			return
		}
		for _, c := range page {
			if c.HasShortSecret() {
				short = append(short, c.ID)
			}
			if slices.ContainsFunc(c.RedirectURIs, isPlainElsewhere) {
				plain = append(plain, c.ID)
			}
		}
		if len(page) < checkedClients {
			break
		}
		after = page[len(page)-1].ID
	}
	if len(short) > 0 {
		u.report(warningOf(check, "rotate them: tollhouse client rotate-secret ID", "%s imported secrets that are easy to guess: %s", whichHave(short), shownIDs(short)))
	}
	if len(plain) > 0 {
		u.report(warningOf(check, "use https: tollhouse client update ID --add-redirect-uri", "%s redirect URIs that are plain http on other machines: %s", whichHave(plain), shownIDs(plain)))
	}
}

func isPlainElsewhere(uri string) bool {
	return strings.HasPrefix(uri, "http://") && store.CheckRedirectURI(uri) != nil
}

func whichHave(ids []string) string {
	if len(ids) == 1 {
		return "1 client has"
	}
	return fmt.Sprintf("%d clients have", len(ids))
}

func shownIDs(ids []string) string {
	text := strings.Join(ids[:min(len(ids), shownClients)], ", ")
	if len(ids) > shownClients {
		text += " …"
	}
	return text
}
