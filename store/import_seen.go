package store

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// seenLines is what a dry run remembers of the lines before, whose Updates were rolled back: of the
// name of a record and of each member a few bytes of its hash. Most lines take 32 bytes, and the two
// texts of a token 16 each.
type seenLines struct {
	records map[uint64][seenMembersMax]uint16
	texts   map[uint64][2]uint32 // and ids, of which no member is compared
}

const (
	seenMembersMax = 12      // members of a record that are compared
	seenLinesMax   = 1 << 20 // about 80 MiB; beyond it only the real run knows of lines before
)

// seenMembers has a few bytes of the hash of each member, or 0 for one that is not compared.
type seenMembers []uint32

type seenEntry struct {
	key     uint64
	members seenMembers
}

func newSeenLines() seenLines {
	return seenLines{map[uint64][seenMembersMax]uint16{}, map[uint64][2]uint32{}}
}

func (s seenLines) add(entries []seenEntry) {
	for _, e := range entries {
		switch {
		case len(s.records)+len(s.texts) >= 2*seenLinesMax:
		case len(e.members) <= 2:
			var text [2]uint32
			copy(text[:], e.members)
			s.texts[e.key] = text
		default:
			var short [seenMembersMax]uint16
			for i, m := range e.members {
				short[i] = uint16(m)
			}
			s.records[e.key] = short
		}
	}
}

// find returns what a dry run saw of a record.
func (s seenLines) find(noun, name string) (members seenMembers, ok bool) {
	key := seenKey(noun, name)
	if text, ok := s.texts[key]; ok {
		return text[:], true
	}
	short, ok := s.records[key]
	if !ok {
		return nil, false
	}
	for _, m := range short {
		members = append(members, uint32(m))
	}
	return members, true
}

func seenKey(noun, name string) uint64 {
	sum := sha256.Sum256([]byte(noun + "\x00" + name))
	return binary.BigEndian.Uint64(sum[:])
}

// seenAs returns what to remember of a record.
func seenAs(noun, name string, d description) seenEntry {
	return seenEntry{seenKey(noun, name), d.seen()}
}

// described is a member of a record as text. One that the line leaves to the server, such as the
// time of creation, is not compared.
type described struct {
	member, text string
	isOpen       bool
}

// description is a record, member by member in a fixed order.
type description []described

// differs returns the members in which what a line says differs from what exists.
func (d description) differs(found description) (members []string) {
	for i, m := range d {
		if !m.isOpen && !found[i].isOpen && m.text != found[i].text {
			members = append(members, m.member)
		}
	}
	return members
}

// differsFromSeen is differs for a line before.
func (d description) differsFromSeen(found seenMembers) (members []string) {
	for i, now := range d.seen() {
		if now != 0 && found[i] != 0 && uint16(now) != uint16(found[i]) {
			members = append(members, d[i].member)
		}
	}
	return members
}

func (d description) seen() seenMembers {
	members := make(seenMembers, len(d))
	for i, m := range d {
		if !m.isOpen {
			sum := sha256.Sum256([]byte(m.text))
			members[i] = binary.BigEndian.Uint32(sum[:]) | 1 // 0 is open
		}
	}
	return members
}

func describedBool(member string, v bool) described {
	return described{member: member, text: strconv.FormatBool(v)}
}

func describedList(member string, texts []string) described {
	return described{member: member, text: strings.Join(texts, "\x00")}
}

func describedTime(member string, at time.Time, isOpen bool) described {
	return described{member: member, text: strconv.FormatInt(at.Unix(), 10), isOpen: isOpen}
}
