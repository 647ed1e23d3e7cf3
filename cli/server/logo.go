package server

import (
	"bytes"
	"errors"
	"image/png"
	"io"

	"tollhouse/cli/term"
	"tollhouse/store/record"
)

const instanceNameDefault = "tollhouse"

func instanceNameError(err error) error {
	var bad *record.InvalidError
	if errors.As(err, &bad) {
		return term.Usage(bad.Hint, "--instance-name: %s", bad.Reason)
	}
	return err
}

const (
	logoSizeMax   = 64 << 10 // bytes
	logoPixelsMax = 1024     // a side
	logoWanted    = "give a PNG of at most 64 KiB and 1,024 by 1,024 pixels"
)

// readLogo reads and checks --logo. SVG is refused, because it can contain scripts.
func readLogo(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	refuse := func(format string, args ...any) ([]byte, error) {
		return nil, term.Fail(term.ExitConfig, logoWanted, "--logo %s: "+format, append([]any{name}, args...)...)
	}
	f, err := term.OpenInput(name)
	if err != nil {
		return nil, term.Fail(term.UnreadableCode(err), logoWanted, "--logo %s: %w", name, term.PathReason(err))
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, logoSizeMax+1))
	if err != nil {
		return refuse("%w", term.PathReason(err))
	}
	if len(content) > logoSizeMax {
		return refuse("the file has more than 64 KiB")
	}
	size, err := png.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		return refuse("not a PNG: %w", err)
	}
	if size.Width > logoPixelsMax || size.Height > logoPixelsMax {
		return refuse("the picture has %d by %d pixels", size.Width, size.Height)
	}
	if _, err := png.Decode(bytes.NewReader(content)); err != nil {
		return refuse("the PNG is damaged: %w", err)
	}
	return content, nil
}
