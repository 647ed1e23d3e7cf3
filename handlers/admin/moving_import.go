package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/moving"
	"tollhouse/store/record"
)

// MovingCounts is the progress of an import of lines, or its summary.
type MovingCounts struct {
	Progress        bool           `json:"progress,omitempty"`
	Summary         bool           `json:"summary,omitempty"`
	Lines           int            `json:"lines"`
	Created         store.Created  `json:"created"`
	Unchanged       int            `json:"unchanged"`
	Updated         int            `json:"updated"`
	Errors          int            `json:"errors"`
	Expired         int            `json:"expired"`
	Cut             int            `json:"cut"`
	Hashes          map[string]int `json:"hashes"`
	WithoutPassword int            `json:"without_password"`
	Privileged      int            `json:"privileged"`
	Empty           int            `json:"empty_lines"`
	Unreadable      bool           `json:"unreadable,omitempty"` // from the last refused line on
}

// MovingDiffers reports a line whose record exists with other members.
type MovingDiffers struct {
	Line      int      `json:"line"`
	Offset    int64    `json:"offset"`
	Unchanged bool     `json:"unchanged"`
	Differs   []string `json:"differs"`
}

func (s *Server) parseMovingQuery(r *http.Request) (o store.ImportOptions, err error) {
	pairs, refused := web.ParseAPIQuery(r.URL.RawQuery)
	if refused != nil {
		return o, refused
	}
	seen := map[string]bool{}
	for _, pair := range pairs {
		if seen[pair.Name] && pair.Name != "allow" {
			return o, web.DuplicateParameter(pair.Name)
		}
		seen[pair.Name] = true
		on := pair.Value == "true"
		switch {
		case pair.Name == "on-error" && (pair.Value == "stop" || pair.Value == "skip"):
			o.SkipErrors = pair.Value == "skip"
		case pair.Name == "on-error":
			return o, web.InvalidParameter("on-error", "must be stop or skip.")
		case pair.Name == "allow" && slices.Contains(store.ImportAllows(), pair.Value):
			o.Allow = append(o.Allow, pair.Value)
		case pair.Name == "allow":
			return o, web.InvalidParameter("allow", "must be one of %s.", strings.Join(store.ImportAllows(), ", "))
		case slices.Contains([]string{"dry-run", "update", "without-key"}, pair.Name) && !on && pair.Value != "false":
			return o, web.InvalidParameter(pair.Name, "must be true or false.")
		case pair.Name == "dry-run":
			o.DryRun = on
		case pair.Name == "update":
			o.Update = on
		case pair.Name == "without-key":
			o.Keyless = on
		default:
			return o, web.UnknownParameter(pair.Name, nil, []string{"on-error", "dry-run", "update", "allow", "without-key"})
		}
	}
	return o, nil
}

// importLines is POST /admin/import: a file of lines of package moving, plain or compressed. It
// answers as importEvents does: progress, the first hundred refused lines, or all of them in a dry
// run, the first hundred that differ from what exists, and a summary. Without a summary the import
// is incomplete.
func (s *Server) importLines(w http.ResponseWriter, r *http.Request) error {
	o, err := s.parseMovingQuery(r)
	if err != nil {
		return err
	}
	if err := mustBeLines(r); err != nil {
		return err
	}
	controller, err := beginAnswer(w)
	if err != nil {
		return err
	}
	run := movingRun{importRun: importRun{w: w, controller: controller, reportedMax: errorLinesMax}}
	if o.DryRun {
		run.reportedMax = math.MaxInt
	}
	o.Report, o.ParseURL = run.report, s.api.ParseWebhookURL
	run.importer = s.site.Store.NewImport(r.Context(), o)
	run.run(r.Context(), r.Body)
	if len(run.importer.Summary().Hashes) > 0 && !o.DryRun {
		if err := s.site.Store.MeasureHashes(context.WithoutCancel(r.Context())); err != nil {
			web.Note(r.Context(), slog.String("err", err.Error()))
		}
	}
	if run.importer.Stopped() || run.broken > 0 {
		passOver(controller, r.Body)
	}
	total := run.importer.Summary()
	web.Note(r.Context(), slog.Int("created", total.Created.All()), slog.Int("refused", total.Errors))
	return nil
}

// movingRun is importRun for lines of every noun.
type movingRun struct {
	importRun
	importer *store.Importer
	differed int // lines reported, at most errorLinesMax
}

func (mr *movingRun) run(ctx context.Context, file io.Reader) {
	mr.reportedAt = time.Now()
	err := mr.read(ctx, file)
	var broken *web.Problem
	switch {
	case errors.As(err, &broken):
		web.NoteProblem(ctx, broken)
		mr.write(map[string]any{"error": broken.Code, "error_description": broken.Description})
	case err != nil:
		mr.fail(ctx, err)
	default:
		sum := mr.counts(MovingCounts{Summary: true})
		sum.Unreadable = mr.broken > 0 && sum.Lines == mr.broken // no line before it stopped the import
		mr.write(sum)
	}
}

// read imports the lines of a file. An error leaves out the summary.
func (mr *movingRun) read(ctx context.Context, file io.Reader) error {
	lines, err := moving.Open(file)
	if errors.Is(err, moving.ErrBrokenGzip) {
		return mr.breakOff(ctx, 0, IncompleteUpload, brokenGzip, "compress it again")
	}
	if err != nil {
		return uploadBroke(err)
	}
	if format := lines.Format(); format != "" {
		return mr.breakOff(ctx, 0, moving.InvalidLine, "the file is "+format, "give lines of JSON, plain or compressed with gzip")
	}
	for n := 1; !mr.importer.Stopped(); n++ {
		if n%linesPerLook == 0 {
			mr.look(n)
		}
		line, offset, err := lines.Next()
		switch {
		case err == nil:
			err = mr.importer.Add(ctx, line, offset)
		case errors.Is(err, moving.ErrLongLine):
			err = mr.importer.Refuse(ctx, offset, moving.InvalidLine, fmt.Sprintf("the line has more than %d bytes", moving.LineSizeMax), "write one record per line, of at most 64 KiB")
		case errors.Is(err, io.EOF):
			return mr.importer.Flush(ctx)
		case errors.Is(err, moving.ErrBrokenGzip):
			return mr.breakOff(ctx, offset, IncompleteUpload, brokenGzip, "compress it again")
		default:
			return errors.Join(mr.importer.Flush(ctx), uploadBroke(err)) // whole lines are imported
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// breakOff refuses the line at offset, from which on the file cannot be read.
func (mr *movingRun) breakOff(ctx context.Context, offset int64, code, reason, hint string) error {
	mr.broken = mr.importer.Summary().Lines + 1
	return errors.Join(mr.importer.Refuse(ctx, offset, code, reason, hint), mr.importer.Flush(ctx))
}

const brokenGzip = "the gzip file is cut off or damaged here"

func uploadBroke(err error) error {
	return web.NewProblem(http.StatusBadRequest, IncompleteUpload, "The upload was cut off. What was imported is kept; import the file again.").Because(err)
}

func (mr *movingRun) look(lines int) {
	if mr.isDue(lines) {
		mr.write(mr.counts(MovingCounts{Progress: true}))
		_ = mr.controller.Flush()
	}
}

func (mr *movingRun) counts(c MovingCounts) MovingCounts {
	t := mr.importer.Summary()
	c.Lines, c.Created, c.Unchanged, c.Updated, c.Errors, c.Expired, c.Cut = t.Lines, t.Created, t.Unchanged, t.Updated, t.Errors, t.Expired, t.Cut
	c.Hashes, c.WithoutPassword, c.Privileged, c.Empty = t.Hashes, t.WithoutPassword, t.Privileged, t.Empty
	return c
}

func (mr *movingRun) report(r store.ImportReport) {
	switch {
	case r.Refused != nil && mr.reported < mr.reportedMax:
		mr.reported++
		reason := r.Refused.Reason
		if r.Refused.Hint != "" {
			reason += "; " + r.Refused.Hint
		}
		mr.write(ImportRefusal{int64(r.Line), r.Offset, r.Refused.Code, r.Refused.Param, web.Sentence(reason, r.Refused.Param)})
	case r.Refused == nil && mr.differed < errorLinesMax:
		mr.differed++
		mr.write(MovingDiffers{r.Line, r.Offset, true, r.Differs})
	}
}

// fail reports why there will be no summary.
func (mr *movingRun) fail(ctx context.Context, err error) {
	p := web.AsOperatorProblem(err)
	web.NoteProblem(ctx, p)
	description := p.Description
	if errors.Is(err, record.ErrUnavailable) && p.Code != web.DiskFull {
		description = "The store accepts no more changes at the moment." // but it did before
	}
	mr.write(map[string]any{"error": p.Code, "error_description": description + " What was imported is kept; import the file again."})
}
