package store

import (
	"crypto/sha256"
	"strings"
)

// dryRun remembers the events of batches that were taken back, as the engine
// would: by their ids, and what they say.
type dryRun map[string][sha256.Size]byte

// dryRunMax bounds the memory of a dry run, to about 128 MiB. In a longer file
// an id that comes twice is found only when the real run meets it.
const dryRunMax = 1 << 20

// repeated says what a line is beside an earlier one of its id.
type repeated struct {
	fault     *LineError
	unchanged bool
}

// addAll remembers the lines of a batch, and says which repeat an earlier one.
func (d *dryRun) addAll(batch []importLine, dry bool) []repeated {
	if !dry {
		return nil
	}
	if *d == nil {
		*d = dryRun{}
	}
	again := make([]repeated, len(batch))
	for i := range batch {
		if batch[i].refused == nil {
			again[i] = d.add(&batch[i])
		}
	}
	return again
}

func (d *dryRun) add(l *importLine) repeated {
	id := l.foreign
	if id == "" {
		id = l.place.String()
	}
	says := sha256.Sum256(l.draft.record(id, l.createdAt))
	before, known := (*d)[id]
	switch {
	case known && before == says:
		return repeated{unchanged: true}
	case known:
		return repeated{fault: lineError(l, &conflictError{id})}
	}
	if len(*d) < dryRunMax {
		(*d)[strings.Clone(id)] = says
	}
	return repeated{}
}
