package cli

import "log/slog"

var quiet = slog.New(slog.DiscardHandler)
