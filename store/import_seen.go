package store

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// seenLines is what a dry run remembers of the lines before, whose Updates were rolled back: the
// names of records, and of each member a few bytes of its hash.
type seenLines map[[16]byte]seenMembers

const (
	seenMembersMax = 12      // members of a record that are compared
	seenLinesMax   = 1 << 20 // about 100 MiB; beyond it only the real run knows of lines before
)

type seenMembers [seenMembersMax]uint32

type seenEntry struct {
	key     [16]byte
	members seenMembers
}

func (s seenLines) add(entries []seenEntry) {
	for _, e := range entries {
		if len(s) < seenLinesMax {
			s[e.key] = e.members
		}
	}
}

// find returns what a dry run saw of a record.
func (s seenLines) find(noun, name string) (seenMembers, bool) {
	members, ok := s[seenKey(noun, name)]
	return members, ok
}

func seenKey(noun, name string) [16]byte {
	sum := sha256.Sum256([]byte(noun + "\x00" + name))
	return [16]byte(sum[:])
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
	seen := d.seen()
	for i, now := range seen[:len(d)] {
		if now != 0 && found[i] != 0 && now != found[i] {
			members = append(members, d[i].member)
		}
	}
	return members
}

func (d description) seen() (members seenMembers) {
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
