package server

import (
	"net"
	"sync"
)

// net/http sends the header of a large response with the first bytes of its body, 4 KiB,
// and the rest by a second write. That wakes the peer twice, and costs a tenth of sending
// a page. So a response holds its first write until the second.

const heldSizeMax = 8 << 10 // bytes; a TLS record around 4 KiB fits

var heldRooms = sync.Pool{New: func() any { return new([heldSizeMax]byte) }}

// Hold keeps the next write, if it is small, until the one after it. Only the goroutine
// that writes may call it.
func (c *limitedConn) Hold() { c.holds = true }

// Release sends what is still kept. An error shows in the next write.
func (c *limitedConn) Release() {
	c.holds = false
	if c.held != nil {
		_, _ = c.writeHeld(nil)
	}
}

func (c *limitedConn) Write(b []byte) (int, error) {
	switch {
	case c.held != nil:
		return c.writeHeld(b)
	case !c.holds || len(b) > heldSizeMax:
		return c.TCPConn.Write(b)
	}
	c.room = heldRooms.Get().(*[heldSizeMax]byte)
	c.held = append(c.room[:0], b...)
	return len(b), nil
}

// writeHeld writes what is kept and b at once.
func (c *limitedConn) writeHeld(b []byte) (int, error) {
	held := len(c.held)
	both := net.Buffers{c.held, b}
	n, err := both.WriteTo(c.TCPConn)
	heldRooms.Put(c.room)
	c.holds, c.held, c.room = false, nil, nil
	return max(int(n)-held, 0), err
}
