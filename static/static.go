// Package static holds what the pages need besides their HTML: one style sheet
// and one icon, embedded in the binary.
//
// Each asset is served under a name that carries a hash of its bytes, so that
// a browser may keep it for ever and still never shows the style of another
// release. The views ask [Path] for the address to write into a page; the
// handler that answers it asks [Open] for the bytes. What is not named there
// does not exist: there is no file system behind it, and nothing to list.
//
// There is no script. The pages work without one, and their content security
// policy allows none.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"path"
	"strings"
	"sync"
)

// Prefix is where assets live, below the base path of the deployment.
const Prefix = "/static/"

// hashLength is in hexadecimal digits: 48 bits tell the releases of two files
// apart, and keep the address short enough to read in a log.
const hashLength = 12

//go:embed style.css icon.svg
var files embed.FS

// contentTypes names the assets and how each is served. Our choice: a table
// rather than package mime, whose answers depend on the machine's own files.
var contentTypes = map[string]string{
	"style.css": "text/css; charset=utf-8",
	"icon.svg":  "image/svg+xml",
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
		sum := sha256.Sum256(content)
		ext := path.Ext(name)
		p := Prefix + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:])[:hashLength] + ext
		paths[name] = p
		assets[p] = asset{content, contentType}
	}
	return paths, assets
})

// Path returns the address of the asset called name ("style.css"), from the
// root of the deployment: "/static/style.3f2a9c1b04de.css". It panics when
// there is no such asset, for only our own pages ask.
func Path(name string) string {
	paths, _ := hashed()
	p, ok := paths[name]
	if !ok {
		panic("static: no asset is called " + name)
	}
	return p
}

// Open returns the asset served at path, an address that [Path] returned,
// with its Content-Type. The content is shared: the caller must not change
// it. An address that Path never returned, in any spelling, is not ok.
func Open(path string) (content []byte, contentType string, ok bool) {
	_, assets := hashed()
	a, ok := assets[path]
	return a.content, a.contentType, ok
}
