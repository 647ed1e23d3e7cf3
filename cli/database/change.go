package database

import (
	"context"
	"errors"
	"net/url"

	"tollhouse/cli/term"
	"tollhouse/handlers/web"
	"tollhouse/store/kv/pgkv"
)

// ReadSettings returns what the servers agreed on. found is false if none ran yet.
func ReadSettings(ctx context.Context, a *pgkv.Address) (agreed Agreed, found bool, err error) {
	made, err := isMade(ctx, a)
	if err != nil || !made {
		return Agreed{}, false, openFault(a, err)
	}
	site, err := readSite(ctx, a)
	if err != nil {
		return Agreed{}, false, openFault(a, err)
	}
	_, found = site["public-url"]
	agreed, err = ReadAgreed(site)
	return agreed, found, err
}

// ChangeSettings replaces what servers agreed on by what change makes of it, and returns both.
// Servers that run take it at their next look. From then on no server replaces it when it
// starts alone.
func ChangeSettings(ctx context.Context, a *pgkv.Address, change func(Agreed) (Agreed, error)) (before, after Agreed, err error) {
	s, err := pgkv.Dial(ctx, a)
	if err != nil {
		return before, after, openFault(a, err)
	}
	defer s.Close()
	servers, err := s.Servers(ctx)
	if err != nil {
		return before, after, openFault(a, err)
	}
	err = s.ChangeSite(ctx, func(site map[string]string) (map[string]string, error) {
		if _, found := site["public-url"]; !found {
			return nil, term.Fail(term.ExitNotFound, "give the setting to the first server", "no server has run on the database yet, so nothing is agreed")
		}
		if before, err = ReadAgreed(site); err != nil {
			return nil, err
		}
		if after, err = change(before); err != nil {
			return nil, err
		}
		if len(servers) > 0 {
			if err := checkLive(before.PublicURL, after.PublicURL); err != nil {
				return nil, err
			}
		}
		set := map[string]string{pgkv.SiteSettled: switchedOn}
		old := before.settings()
		for i, s := range after.settings() {
			if s.text != old[i].text { // a setting that older servers do not know stays out
				set[s.name] = s.text
			}
		}
		return set, nil
	})
	if errors.Is(err, pgkv.ErrExclusive) {
		err = term.Fail(term.ExitBusy, "try again when that command has ended", "%w", err)
	}
	return before, after, fault(a, err)
}

// checkLive refuses a public URL that servers which run cannot take: their listeners and the
// cookies of signed-in browsers depend on TLS.
func checkLive(before, after string) error {
	const stop = "stop all servers, run this again, and start them with the new value"
	old, _ := url.Parse(before)
	wanted, err := url.Parse(after)
	switch {
	case err != nil || before == after:
		return err
	case after == "":
		return term.Fail(term.ExitBusy, stop, "--public-url cannot be removed while servers run: others may reach them only by it")
	case wanted.Scheme == "http" && (old.Scheme == "https" || before == "" && !web.IsLoopbackHost(wanted.Hostname())):
		return term.Fail(term.ExitBusy, stop, "--public-url cannot become plain http while servers run: they would ask for passwords and tokens unencrypted")
	}
	return nil
}
