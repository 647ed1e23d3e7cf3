package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// Fixture is an event of a test: a line of an import that may leave out createdAt,
// which is then now, and owner.
type Fixture struct {
	value  snapshot.Value
	owner  string
	member string // that names the owner: owner or account
	id     string
}

// ParseFixture reads a fixture. owner is that of an event that names none. Errors:
// *snapshot.Error, *InvalidError, or one without a member.
func ParseFixture(v snapshot.Value, owner string) (Fixture, error) {
	if v.Kind() != snapshot.Object {
		return Fixture{}, fmt.Errorf("the event must be an object, not %s", v.Kind())
	}
	f := Fixture{owner: owner, member: "owner"}
	if _, ok := v.Member("account"); ok {
		f.member = "account"
	}
	v, err := AccountAsOwner(v)
	if err != nil {
		return Fixture{}, err
	}
	f.value = v
	if named, ok := v.Member("owner"); ok {
		f.owner = named.Text()
	}
	if id, ok := v.Member("id"); ok {
		f.id = id.Text()
	}
	return f, nil
}

// AccountAsOwner returns an event whose account is named by the member owner, as on the wire.
// A fixture may call it account, as everywhere else.
func AccountAsOwner(v snapshot.Value) (snapshot.Value, error) {
	if _, ok := v.Member("account"); !ok {
		return v, nil
	}
	if _, ok := v.Member("owner"); ok {
		return v, errors.New("account and owner both name the account of the event")
	}
	members := slices.Clone(v.Members())
	for i := range members {
		if members[i].Name == "account" {
			members[i].Name = "owner"
		}
	}
	return snapshot.ObjectOf(members...), nil
}

// RecordFixtures records events at their own time, all or none, and returns them as
// stored. Within one second they follow each other, after the events already there. If
// one is refused, refused says why, and its Line is the number of the fixture, from 1.
func (l *Log) RecordFixtures(ctx context.Context, fixtures []Fixture) (events [][]byte, refused *LineError, err error) {
	placed := slices.Clone(fixtures)
	newest := map[newestKey]record.Position{}
	for i := range placed {
		if refused, err = l.place(ctx, &placed[i], newest); err != nil || refused != nil {
			if refused != nil {
				refused.Line = i + 1
			}
			return nil, refused, err
		}
	}
	for _, dryRun := range []bool{true, false} { // an import checks everything without writing
		if refused, err = l.importFixtures(ctx, placed, dryRun); err != nil || refused != nil {
			return nil, refused, err
		}
	}
	for _, f := range placed {
		wire, err := l.FindEvent(ctx, f.owner, f.id, nil)
		if err != nil {
			return nil, nil, err
		}
		events = append(events, wire)
	}
	return events, nil, nil
}

type newestKey struct {
	owner  string
	second int64
}

// place gives a fixture its createdAt, and an id unless it has one.
func (l *Log) place(ctx context.Context, f *Fixture, newest map[newestKey]record.Position) (*LineError, error) {
	now := l.now()
	at, members := now, slices.Clone(f.value.Members())
	if given, ok := f.value.Member("createdAt"); ok {
		var line eventLine
		if err := line.takeCreatedAt(given); err != nil {
			return lineError(&importLine{}, err), nil
		}
		if line.CreatedAt > now.Unix() {
			return &LineError{Code: "future", Param: "createdAt", Reason: "createdAt is in the future: the clock shows " + strconv.FormatInt(now.Unix(), 10)}, nil
		}
		if line.CreatedAt < now.Unix() {
			at = time.Unix(line.CreatedAt, 0)
		}
	} else {
		seconds, err := snapshot.Parse(strconv.AppendInt(nil, now.Unix(), 10), 1)
		if err != nil {
			return nil, err
		}
		members = append(members, snapshot.Member{Name: "createdAt", Value: seconds})
	}
	if _, ok := f.value.Member("owner"); !ok {
		members = append(members, snapshot.Member{Name: "owner", Value: snapshot.Text(f.owner)})
	}
	if _, ok := f.value.Member("id"); !ok {
		key := newestKey{f.owner, at.Unix()}
		last, known := newest[key]
		if !known {
			var err error
			if last, err = l.newestIn(ctx, key); err != nil {
				return nil, err
			}
		}
		newest[key] = last.Next(at, l.fixtureTail())
		f.id = newest[key].String()
		members = append(members, snapshot.Member{Name: "id", Value: snapshot.Text(f.id)})
	}
	f.value = snapshot.ObjectOf(members...)
	return nil, nil
}

// newestIn returns the position of the newest event of a second, or zero.
func (l *Log) newestIn(ctx context.Context, key newestKey) (newest record.Position, err error) {
	filter := Filter{From: key.second, To: key.second, Limit: 1, Row: func(dst []byte, p record.Position, _ []byte) []byte {
		newest = p
		return dst
	}}
	_, err = l.ListEvents(ctx, key.owner, filter, nil)
	return newest, err
}

// fixtureTail draws from a sequence of its own, so that ids of other events stay the
// same however many fixtures a test makes.
func (l *Log) fixtureTail() [8]byte {
	if l.random == nil {
		return secret.NewTail(nil)
	}
	return secret.NewTail(func(sequence string, b []byte) { l.random("fixture "+sequence, b) })
}

// importFixtures imports the fixtures of each owner in their order.
func (l *Log) importFixtures(ctx context.Context, fixtures []Fixture, dryRun bool) (*LineError, error) {
	importers, numbers := map[string]*Importer{}, map[string][]int{}
	var owners []string
	for i, f := range fixtures {
		im := importers[f.owner]
		if im == nil {
			var err error
			if im, err = l.NewImporter(f.owner, ImportOptions{DryRun: dryRun}); err != nil {
				bad := lineError(&importLine{}, err)
				bad.Line, bad.Param = i+1, f.member
				return bad, nil
			}
			importers[f.owner] = im
			owners = append(owners, f.owner)
		}
		numbers[f.owner] = append(numbers[f.owner], i+1)
		refused, err := im.Add(ctx, f.value.Append(nil), 0)
		if err != nil || len(refused) > 0 {
			return numbered(refused, numbers[f.owner]), err
		}
	}
	for _, owner := range owners {
		refused, err := importers[owner].Flush(ctx)
		if err != nil || len(refused) > 0 {
			return numbered(refused, numbers[owner]), err
		}
	}
	return nil, nil
}

// numbered turns the line of an owner's import into the number of the fixture.
func numbered(refused []LineError, numbers []int) *LineError {
	if len(refused) == 0 {
		return nil
	}
	first := refused[0]
	first.Line = numbers[first.Line-1]
	return &first
}
