package web

import "strings"

// browsers and systems are what people call them, with what names them in a User-Agent. The first
// that is there counts: most name others too, for compatibility.
var (
	browsers = []struct{ name, mark string }{
		{"Edge", "Edg"}, {"Opera", "OPR/"}, {"Samsung Internet", "SamsungBrowser/"}, {"Firefox", "Firefox/"}, {"Firefox", "FxiOS/"},
		{"Chrome", "CriOS/"}, {"Chrome", "Chrome/"}, {"Safari", "Safari/"},
	}
	systems = []struct{ name, mark string }{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"ChromeOS", "CrOS"}, {"Windows", "Windows"}, {"Mac", "Mac OS X"}, {"Linux", "Linux"},
	}
)

const agentReadMax = 512 // bytes

// BrowserName is what people call the browser of a User-Agent, such as "Firefox on Linux", or "".
// It consists of our own words only, whatever was sent.
func BrowserName(agent string) string {
	agent = agent[:min(len(agent), agentReadMax)]
	for _, b := range browsers {
		if !strings.Contains(agent, b.mark) {
			continue
		}
		for _, s := range systems {
			if strings.Contains(agent, s.mark) {
				return b.name + " on " + s.name
			}
		}
		return b.name
	}
	return ""
}
