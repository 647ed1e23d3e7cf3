// Package static holds what the pages need besides their HTML: one style sheet, one
// icon, and four scripts, embedded in the binary: one of the operators' pages and of those with
// commands to copy, one that fetches the list on the testers' page again, one that keeps the
// sign-in and consent forms from being sent twice, and one that asks the browser for a passkey.
//
// Each asset is served under a name that carries a hash of its bytes, so that
// a browser may keep it for ever and still never shows the style of another
// release. The views get an asset's address from [Path], and the handler of that
// address gets the bytes from [Open]. Other files cannot be requested or listed.
//
// The pages work without scripts. The content security policy of the other pages allows
// none.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"path"
	"regexp"
	"strings"
	"sync"
)

// Prefix is where assets live, below the base path of the deployment.
const Prefix = "/static/"

// hashLength is in hexadecimal digits: 48 bits distinguish the releases of a file, and
// keep the address short enough to read in a log.
const hashLength = 12

//go:embed style.css icon.svg desk.js dev.js form.js passkey.js
var files embed.FS

// contentTypes lists the assets with their media types. Our choice: a table rather than
// package mime, which depends on files of the machine.
var contentTypes = map[string]string{
	"style.css":  "text/css; charset=utf-8",
	"icon.svg":   "image/svg+xml",
	"desk.js":    "text/javascript; charset=utf-8",
	"dev.js":     "text/javascript; charset=utf-8",
	"form.js":    "text/javascript; charset=utf-8",
	"passkey.js": "text/javascript; charset=utf-8",
}

type asset struct {
	content     []byte
	contentType string
}

// hashed returns the paths by the names, and the assets by the paths.
var hashed = sync.OnceValues(func() (paths map[string]string, assets map[string]asset) {
	paths = make(map[string]string, len(contentTypes))
	assets = make(map[string]asset, len(contentTypes))
	for name, contentType := range contentTypes {
		content, err := files.ReadFile(name)
		if err != nil {
			panic("static: " + name + " is not embedded: " + err.Error())
		}
		content = served(name, content)
		p := PathOf(name, content)
		paths[name] = p
		assets[p] = asset{content, contentType}
	}
	return paths, assets
})

var (
	comments = regexp.MustCompile(`(?s)/\*.*?\*/`)
	spaces   = regexp.MustCompile(`\s*([{}])\s*|([;:,])\s+`)
	margins  = regexp.MustCompile(`(?m)^\s*(//.*\n)?`)
)

// served is a file without what only its authors need: comments, indentation, and in a style
// sheet the space at marks. No text in our files has any of these inside.
func served(name string, content []byte) []byte {
	switch path.Ext(name) {
	case ".css":
		return spaces.ReplaceAll(comments.ReplaceAll(content, nil), []byte("$1$2"))
	case ".js":
		return margins.ReplaceAll(content, nil)
	}
	return content
}

// Path returns the address of the asset called name ("style.css"), from the
// root of the deployment: "/static/style.3f2a9c1b04de.css". It panics for an
// unknown name, which only our own pages could pass.
func Path(name string) string {
	paths, _ := hashed()
	p, ok := paths[name]
	if !ok {
		panic("static: no asset is called " + name)
	}
	return p
}

// PathOf returns the address of a file with that content, like [Path].
func PathOf(name string, content []byte) string {
	sum := sha256.Sum256(content)
	ext := path.Ext(name)
	return Prefix + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:])[:hashLength] + ext
}

// OpenOther returns our own asset for the address that another release gave it. It is for
// servers of two releases behind one address, and ok only for the names of [Path].
func OpenOther(address string) (content []byte, contentType string, ok bool) {
	file, isAsset := strings.CutPrefix(address, Prefix)
	ext := path.Ext(file)
	name := strings.TrimSuffix(file, ext)
	i := strings.LastIndexByte(name, '.')
	if !isAsset || i < 0 || !isHash(name[i+1:]) {
		return nil, "", false
	}
	paths, assets := hashed()
	a, ok := assets[paths[name[:i]+ext]]
	return a.content, a.contentType, ok
}

func isHash(text string) bool {
	return len(text) == hashLength && strings.Trim(text, "0123456789abcdef") == ""
}

// Open returns the asset served at path, an address that [Path] returned,
// with its Content-Type. The content is shared: the caller must not change
// it. An address that Path never returned, in any spelling, is not ok.
func Open(path string) (content []byte, contentType string, ok bool) {
	_, assets := hashed()
	a, ok := assets[path]
	return a.content, a.contentType, ok
}
