package eventlog

import (
	"crypto/sha256"
	"strings"
)

// dryRun remembers the ids and digests of events in batches that were rolled back.
type dryRun map[string][sha256.Size]byte

// dryRunMax bounds the memory of a dry run to about 128 MiB. Beyond it, only the real
// run finds a duplicate id.
const dryRunMax = 1 << 20

// repeated says how a line relates to an earlier one with its id.
type repeated struct {
	fault     *LineError
	unchanged bool
}

// addAll remembers the lines of a batch and reports which repeat an earlier one.
func (d *dryRun) addAll(batch []importLine, dry bool) []repeated {
	if !dry {
		return nil
	}
	if *d == nil {
		*d = dryRun{}
	}
	again := make([]repeated, len(batch))
	for i := range batch {
		if l := &batch[i]; l.refused == nil && (l.native || l.foreign != "") {
			again[i] = d.add(&batch[i])
		}
	}
	return again
}

func (d *dryRun) add(l *importLine) repeated {
	id := l.foreign
	if id == "" {
		id = l.position.String()
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
