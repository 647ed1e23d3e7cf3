package api

import (
	"slices"

	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
)

// webhookTypesMax bounds the types of one request that are compared with known ones.
const webhookTypesMax = 50

// nearTypes returns a notice for each of the types that matches no known one and is like one.
// Types are open-ended, so they are accepted, unless dev refuses them (--strict-types). It is
// called before the change, since an answer that cannot be completed would deny it.
func (c *webhookCall) nearTypes(account string, types []string) (notices []string, err error) {
	if account == eventlog.AllAccounts { // of whose types there is no list
		return nil, nil
	}
	near, err := c.s.site.Store.Events.NearTypes(c.r.Context(), account, types[:min(len(types), webhookTypesMax)])
	if err != nil {
		return nil, err
	}
	if c.s.site.Store.Events.HasStrictTypes() && len(near) > 0 {
		return nil, web.InvalidParameter("types", "has %s, which is unknown; did you mean %s?", near[0].Type, near[0].Nearest)
	}
	for _, n := range near {
		if text := n.String(); !slices.Contains(notices, text) {
			notices = append(notices, text)
		}
	}
	return notices, nil
}

// nearTypesOf is nearTypes for the account of the endpoint in the path.
func (c *webhookCall) nearTypesOf(types []string) (notices []string, err error) {
	account := c.by.Account
	if account == "" && len(types) > 0 {
		e, err := c.s.site.Store.Webhooks.Find(c.r.Context(), c.by, c.id())
		if err != nil {
			return nil, c.problem(err)
		}
		account = e.Account
	}
	return c.nearTypes(account, types)
}

// notice adds notices to the header of an answer.
func (c *webhookCall) notice(notices []string) {
	for _, text := range notices {
		c.w.Header().Add("Tollhouse-Notice", text)
	}
}
