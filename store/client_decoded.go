package store

import (
	"bytes"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
)

// decodedClients spares requests the decoding of a client that another request has decoded. What
// is kept counts only for the very bytes that it was decoded from, and these the caller has just
// read: so every change of a client, whichever server makes it, is seen by the next request.
type decodedClients struct {
	kept *lru.Cache[string, decodedClient]
}

type decodedClient struct {
	value  []byte
	client Client // its lists are shared with all callers, which must not change them
}

const (
	decodedClientsMax    = 256
	decodedClientSizeMax = 2 << 10 // bytes of a record; larger ones are rare
)

func newDecodedClients() decodedClients {
	kept, err := lru.New[string, decodedClient](decodedClientsMax)
	if err != nil {
		panic("store: " + err.Error())
	}
	return decodedClients{kept}
}

// decode is decodeClient for a caller who changes nothing of the client.
func (d decodedClients) decode(id string, v []byte) (Client, error) {
	if known, found := d.kept.Get(id); found && bytes.Equal(known.value, v) {
		return known.client, nil
	}
	c, err := decodeClient(strings.Clone(id), v) // the id may be a part of a request
	if err == nil && len(v) <= decodedClientSizeMax {
		d.kept.Add(c.ID, decodedClient{bytes.Clone(v), c})
	}
	return c, err
}
