package admin

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
)

// UserNamed finds a user by name or id. A text in the form of an id is an id:
// otherwise a user with such a name would hide another. Errors: record.ErrNotFound.
func (s *Server) UserNamed(ctx context.Context, name string) (store.User, error) {
	if store.IsSubject(name) {
		return s.site.Store.FindUserBySubject(ctx, name)
	}
	return s.site.Store.FindUser(ctx, name)
}

const clientsSearched = 500 // read in one transaction

// ClientsNamed returns the ids of the clients with that id or name, in any case.
func (s *Server) ClientsNamed(ctx context.Context, name string) (ids []string, err error) {
	err = s.eachClient(ctx, "", func(c store.Client) bool {
		if c.ID == name || strings.EqualFold(c.Name, name) {
			ids = append(ids, c.ID)
		}
		return true
	})
	return ids, err
}

// eachClient visits the clients with ids after the given one, until visit returns false.
func (s *Server) eachClient(ctx context.Context, after string, visit func(store.Client) bool) error {
	for {
		clients, err := s.site.Store.ListClients(ctx, after, clientsSearched)
		if err != nil {
			return err
		}
		for _, c := range clients {
			if after = c.ID; !visit(c) {
				return nil
			}
		}
		if len(clients) < clientsSearched {
			return nil
		}
	}
}

// AuditSearch is a search of the audit record as an operator writes it: names in any
// spelling, or ids.
type AuditSearch struct {
	What, User, Client, Account, Operator, Source, From, To string

	After string

	FromName, ToName string // the parameters of from and to
}

// auditKinds are the kinds of audit lines that a search may name.
var auditKinds = []string{
	string(store.AuditLogin), string(store.AuditLoginRefused), string(store.AuditPasswordChanged), string(store.AuditSecondFactor), string(store.AuditGrant), string(store.AuditDenied),
	string(store.AuditRefused), string(store.AuditRevoke), string(store.AuditRefreshReuse), string(store.AuditCodeReplay), string(store.AuditThrottle),
	string(store.AuditAdmin), string(store.AuditWebhook),
}

// nobody matches no line.
var nobody = []string{"\x00"}

// AuditFilter resolves names. An unknown name matches nothing.
func (s *Server) AuditFilter(ctx context.Context, a AuditSearch) (f store.AuditFilter, err error) {
	f.AccountID = a.Account
	if a.What != "" {
		f.Kinds = []store.Audited{store.Audited(a.What)}
		if last := len(auditKinds) - 1; !slices.Contains(auditKinds, a.What) {
			return f, web.InvalidParameter("what", "is not a kind of audit line: give %s or %s.", strings.Join(auditKinds[:last], ", "), auditKinds[last])
		}
	}
	if f.UserIDs, err = s.auditUser(ctx, a.User); err != nil {
		return f, err
	}
	if f.OperatorIDs, err = s.auditUser(ctx, a.Operator); err != nil {
		return f, err
	}
	if a.Client != "" {
		if f.ClientIDs, err = s.ClientsNamed(ctx, a.Client); err != nil {
			return f, err
		}
		f.ClientIDs = append(f.ClientIDs, a.Client) // a deleted client's id
	}
	if a.Source != "" {
		var ok bool
		if f.Source, ok = parseSource(a.Source); !ok {
			return f, web.InvalidParameter("source", "is not an address: give one such as 198.51.100.7, or a network such as 198.51.100.0/24.")
		}
	}
	var ok bool
	if a.From != "" {
		if f.From, _, ok = PeopleTime(a.From, s.site.Store.Now()); !ok {
			return f, web.InvalidParameter(a.FromName, "is not a time: %s.", PeopleTimes)
		}
	}
	if a.To != "" {
		if _, f.To, ok = PeopleTime(a.To, s.site.Store.Now()); !ok {
			return f, web.InvalidParameter(a.ToName, "is not a time: %s.", PeopleTimes)
		}
		f.To = f.To.Add(999_999_999) // all of its last second
	}
	return f, nil
}

// auditUser returns the id of a user, who may be deleted.
func (s *Server) auditUser(ctx context.Context, name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	u, err := s.UserNamed(ctx, name)
	switch {
	case err == nil:
		return []string{u.Subject()}, nil
	case !errors.Is(err, record.ErrNotFound):
		return nil, err
	case strings.HasPrefix(name, "usr_"):
		return []string{name}, nil
	}
	return nobody, nil
}

func parseSource(text string) (netip.Prefix, bool) {
	if addr, err := web.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err == nil
}

// PeopleTime reads a time as people write it and returns the first and the last second
// that it means.
func PeopleTime(text string, now time.Time) (first, last time.Time, ok bool) {
	text = strings.TrimSpace(text)
	for _, form := range []struct {
		layout string
		length time.Duration
	}{
		{time.DateOnly, web.Day}, {"2006-01-02 15:04", time.Minute}, {"2006-01-02T15:04", time.Minute},
		{"2006-01-02 15:04:05", time.Second}, {"2006-01-02T15:04:05", time.Second}, {time.RFC3339, time.Second},
	} {
		if at, err := time.Parse(form.layout, text); err == nil && at.Unix() >= 0 {
			return at, at.Add(form.length - time.Second), true
		}
	}
	if web.IsDigits(text) && len(text) <= api.TimestampDigitsMax {
		seconds, _ := strconv.ParseInt(text, 10, 64)
		return time.Unix(seconds, 0), time.Unix(seconds, 0), true
	}
	age, ok := web.ParseAge(text)
	if at := now.Add(-age); ok && at.Unix() >= 0 {
		return at, at, true
	}
	return first, last, false
}

// PeopleTimes says how to write a time for [PeopleTime].
const PeopleTimes = "give a day such as 2026-03-09, a time such as 2026-03-09 14:30 or 2026-03-09T14:30:00+01:00, an age such as 2h, or Unix seconds"
