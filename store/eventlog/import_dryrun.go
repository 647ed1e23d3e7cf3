package eventlog

import (
	"crypto/sha256"
	"encoding/binary"
)

// Seen remembers the ids and digests of events in batches that were rolled back, and the names
// of resources, in 16 bytes a line. The zero Seen is ready to use.
type Seen struct{ digests map[uint64]uint64 }

// dryRunMax bounds the memory of a dry run to about 40 MiB. Beyond it, only the real
// run finds a duplicate id.
const dryRunMax = 1 << 20

// shortSum is enough of a hash to tell the lines of a file apart.
func shortSum(text []byte) uint64 {
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:])
}

// repeated says how a line relates to an earlier one with its id.
type repeated struct {
	fault     *LineError
	unchanged bool
	differs   bool // of a resource: in its object
}

// addAll remembers the lines of a batch and notes which repeat an earlier one.
func (d *Seen) addAll(account string, batch []importLine) {
	if d.digests == nil {
		d.digests = map[uint64]uint64{}
	}
	for i := range batch {
		switch l := &batch[i]; {
		case l.refused != nil:
		case l.resource != nil:
			l.again = d.addResource(account, l)
		case l.native || l.foreign != "":
			l.again = d.add(account, l)
		}
	}
}

func (d *Seen) addResource(account string, l *importLine) repeated {
	name := shortSum([]byte(account + " " + l.kind + " " + l.draft.resource)) // no id has a space
	says := shortSum(l.snapshot)
	before, known := d.digests[name]
	if !known && len(d.digests) < dryRunMax {
		d.digests[name] = says
	}
	return repeated{unchanged: known, differs: known && before != says}
}

func (d *Seen) add(account string, l *importLine) repeated {
	id := l.foreign
	if id == "" {
		id = l.position.String()
	}
	says := shortSum(l.draft.record(id, l.createdAt))
	name := shortSum([]byte(account + " " + id))
	before, known := d.digests[name]
	switch {
	case known && before == says:
		return repeated{unchanged: true}
	case known:
		return repeated{fault: lineError(l, &conflictError{id})}
	}
	if len(d.digests) < dryRunMax {
		d.digests[name] = says
	}
	return repeated{}
}
