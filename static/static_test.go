package static_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollhouse/static"
	"tollhouse/store/storetest/must"
)

var names = []string{"style.css", "icon.svg", "desk.js", "dev.js", "form.js", "passkey.js"}

func TestPath(t *testing.T) {
	t.Parallel()
	for _, name := range names {
		t.Run("changes_with_the_bytes_of_"+name, func(t *testing.T) {
			t.Parallel()
			content, _, _ := static.Open(static.Path(name))
			sum := sha256.Sum256(content)
			base, ext, _ := strings.Cut(name, ".")
			want := "/static/" + base + "." + hex.EncodeToString(sum[:6]) + "." + ext
			if got := static.Path(name); got != want {
				t.Errorf("Path(%q) = %q, want %q", name, got, want)
			}
		})
	}
	t.Run("panics_on_a_name_that_we_never_gave", func(t *testing.T) {
		t.Parallel()
		defer func() {
			if recover() == nil {
				t.Error("Path of an unknown asset returned, want panic")
			}
		}()
		static.Path("script.js")
	})
}

var (
	unsaid = regexp.MustCompile(`(?s:/\*.*?\*/)|(?m:^\s*//.*$)`) // comments
	quoted = regexp.MustCompile("\"[^\"\n]*\"|`[^`]*`")
)

// tight is a file without comments, and without any space.
func tight(file string) string {
	return strings.Join(strings.Fields(unsaid.ReplaceAllString(file, "")), "")
}

// Promise (Attacks on operations): secrets in logs and audit; files beside the static ones
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, wantType string }{
		{"style.css", "text/css; charset=utf-8"},
		{"icon.svg", "image/svg+xml"},
		{"desk.js", "text/javascript; charset=utf-8"},
		{"dev.js", "text/javascript; charset=utf-8"},
		{"form.js", "text/javascript; charset=utf-8"},
		{"passkey.js", "text/javascript; charset=utf-8"},
	} {
		t.Run("answers_for_"+test.name, func(t *testing.T) {
			t.Parallel()
			file := string(must.Get(os.ReadFile(test.name))(t))
			content, contentType, ok := static.Open(static.Path(test.name))
			if !ok || contentType != test.wantType || tight(string(content)) != tight(file) {
				t.Errorf("Open(Path(%q)) = %d bytes, %q, %v; want the file, %q, true", test.name, len(content), contentType, ok, test.wantType)
			}
			if got, want := quoted.FindAllString(string(content), -1), quoted.FindAllString(unsaid.ReplaceAllString(file, ""), -1); !slices.Equal(got, want) {
				t.Errorf("%s is served with the texts %q, want %q", test.name, got, want)
			}
		})
	}
	t.Run("nothing_else_exists", func(t *testing.T) {
		t.Parallel()
		style := static.Path("style.css")
		for _, path := range []string{
			"", "/", "/static", "/static/", "/static/style.css", "/static/static.go", "/static/../main.go",
			"/static/%2e%2e/main.go", `/static/..\main.go`, "/static/..%5cmain.go", "style.css",
			style + "\x00", "/" + style, style + "/", strings.TrimPrefix(style, "/"), strings.ToUpper(style),
			"/static/./" + strings.TrimPrefix(style, static.Prefix),
		} {
			if content, contentType, ok := static.Open(path); ok || content != nil || contentType != "" {
				t.Errorf("Open(%q) = %d bytes, %q, %v; want nothing", path, len(content), contentType, ok)
			}
		}
	})
}

// TestStyle keeps the sheet to its own rules.
func TestStyle(t *testing.T) {
	t.Parallel()
	content := must.Get(os.ReadFile("style.css"))(t)
	sheet := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(content), "")

	t.Run("writes_no_colour_below_the_tokens", func(t *testing.T) {
		t.Parallel()
		for line := range strings.Lines(sheet) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "--") {
				continue
			}
			if m := regexp.MustCompile(`#[0-9a-f]{3,8}\b|\b(rgb|hsl|oklch)a?\(`).FindString(line); m != "" {
				t.Errorf("colour %q in %q, want a token", m, line)
			}
		}
	})
	t.Run("fetches_nothing_and_forces_nothing", func(t *testing.T) {
		t.Parallel()
		for _, word := range []string{"url(", "@import", "@font-face", "!important", "expression(", "//"} {
			if strings.Contains(sheet, word) {
				t.Errorf("the style sheet says %q", word)
			}
		}
	})
	t.Run("names_no_token_that_is_missing", func(t *testing.T) {
		t.Parallel()
		for _, m := range regexp.MustCompile(`var\((--[a-z0-9-]+)\)`).FindAllStringSubmatch(sheet, -1) {
			if !strings.Contains(sheet, m[1]+":") {
				t.Errorf("%s is used and never set", m[1])
			}
		}
	})
}

// TestSizes bounds what a page loads beside its HTML.
func TestSizes(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"style.css": 20 << 10, "desk.js": 8 << 10, "dev.js": 1 << 10, "form.js": 1 << 10, "passkey.js": 3 << 10} {
		if size := len(must.Get(os.ReadFile(name))(t)); size > most {
			t.Errorf("%s has %d bytes, more than %d", name, size, most)
		}
	}
}

// TestContrast measures the tokens as WCAG 2.2 does: 4.5:1 for text (1.4.3),
// 3:1 for the edges of fields and the focus ring (1.4.11).
func TestContrast(t *testing.T) {
	t.Parallel()
	content := must.Get(os.ReadFile("style.css"))(t)
	light, dark, ok := strings.Cut(string(content), "prefers-color-scheme: dark")
	if !ok {
		t.Fatal("the style sheet has no dark scheme")
	}
	pairs := []struct {
		over, under string
		wantRatio   float64
	}{
		{"text", "paper", 4.5}, {"text", "surface", 4.5}, {"text", "tint", 4.5},
		{"soft", "paper", 4.5}, {"soft", "surface", 4.5}, {"soft", "tint", 4.5},
		{"accent", "paper", 4.5}, {"accent", "surface", 4.5}, {"accent", "tint", 4.5},
		{"on-accent", "accent", 4.5}, {"on-accent", "accent-over", 4.5},
		{"danger", "danger-tint", 4.5}, {"warn", "warn-tint", 4.5}, {"text", "danger-tint", 4.5}, {"text", "warn-tint", 4.5},
		{"series-1", "surface", 3}, {"series-2", "surface", 3}, {"series-3", "surface", 3}, {"series-4", "surface", 3}, {"series-5", "surface", 3}, {"series-6", "surface", 3},
		{"edge", "surface", 3}, {"edge", "paper", 3}, {"danger", "surface", 4.5}, // both ways: a button, and under the pointer
		{"focus", "paper", 3}, {"focus", "surface", 3}, {"focus", "tint", 3},
	}
	for scheme, sheet := range map[string]string{"light": light, "dark": dark} {
		for _, p := range pairs {
			t.Run(scheme+"_"+p.over+"_on_"+p.under, func(t *testing.T) {
				t.Parallel()
				got := ratio(luminance(t, sheet, p.over), luminance(t, sheet, p.under))
				if got < p.wantRatio {
					t.Errorf("contrast = %.2f, want at least %.1f", got, p.wantRatio)
				}
			})
		}
	}
}

func ratio(a, b float64) float64 {
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

// luminance is WCAG's relative luminance of a token.
func luminance(t *testing.T, sheet, token string) float64 {
	t.Helper()
	m := regexp.MustCompile(`--` + token + `: #([0-9a-f]{6});`).FindStringSubmatch(sheet)
	if m == nil {
		t.Fatalf("no token --%s with a six-digit colour", token)
	}
	rgb := must.Get(strconv.ParseUint(m[1], 16, 32))(t)
	linear := func(channel uint64) float64 {
		c := float64(channel) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(rgb>>16&255) + 0.7152*linear(rgb>>8&255) + 0.0722*linear(rgb&255)
}

// Promise (Guard §5): the script for passkeys fetches nothing and writes no markup
func TestPasskeyScriptIsPlain(t *testing.T) {
	t.Parallel()
	script := string(must.Get(os.ReadFile("passkey.js"))(t))
	for _, word := range []string{"fetch", "XMLHttpRequest", "sendBeacon", "WebSocket", "EventSource", "import", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval", "Function("} {
		if strings.Contains(script, word) {
			t.Errorf("passkey.js says %s", word)
		}
	}
}
