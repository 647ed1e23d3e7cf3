package views

import (
	"fmt"
	"strings"
)

// A pen writes a path in steps from where it stands, which are shorter than coordinates.
type pen struct {
	text strings.Builder
	x, y int
}

func (p *pen) move(x, y int) { p.step("m", x, y) }
func (p *pen) line(x, y int) { p.step("l", x, y) }

func (p *pen) step(command string, x, y int) {
	between := " "
	if y < p.y {
		between = "" // the sign stands between the numbers
	}
	fmt.Fprintf(&p.text, "%s%d%s%d", command, x-p.x, between, y-p.y)
	p.x, p.y = x, y
}

// up draws a stroke upwards.
func (p *pen) up(by int) {
	fmt.Fprintf(&p.text, "v-%d", by)
	p.y -= by
}
