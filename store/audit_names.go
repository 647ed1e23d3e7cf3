package store

import (
	"context"
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// AuditNames are the names of users and clients by their ids. What was deleted has none.
type AuditNames struct{ Users, Clients map[string]string }

// NamesIn returns the names that the users, operators and clients of audit lines have now.
func (s *Store) NamesIn(ctx context.Context, lines []AuditLine) (n AuditNames, err error) {
	n = AuditNames{Users: map[string]string{}, Clients: map[string]string{}}
	var users, clients []string
	var userIDs []secret.ID
	var userKeys, clientKeys [][]byte
	for _, l := range lines {
		for _, subject := range []string{l.UserID, l.Actor.OperatorID} {
			id, ok := numberNamed(subjectPrefix, subject)
			if _, known := n.Users[subject]; !known && ok {
				n.Users[subject] = ""
				users, userIDs, userKeys = append(users, subject), append(userIDs, id), append(userKeys, record.UserKey(id))
			}
		}
		for _, id := range []string{l.ClientID, l.Actor.ClientID} {
			if _, known := n.Clients[id]; !known && IsClientID(id) {
				n.Clients[id] = ""
				clients, clientKeys = append(clients, id), append(clientKeys, record.ClientKey(id))
			}
		}
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		for i, v := range r.GetMany(userKeys) {
			u, err := decodeUser(userIDs[i], v)
			if err != nil {
				return err
			}
			n.Users[users[i]] = u.Username
		}
		for i, v := range r.GetMany(clientKeys) {
			c, err := decodeClientHead(clients[i], v)
			if err != nil {
				return err
			}
			n.Clients[clients[i]] = c.Name
		}
		return nil
	})
	if err != nil {
		return AuditNames{}, fmt.Errorf("names in audit lines: %w", err)
	}
	return n, nil
}
