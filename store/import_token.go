package store

import "tollhouse/store/moving"

func (im *Importer) readToken(_ *moving.Token, _ *importItem) error {
	return &moving.Error{Code: moving.InvalidLine, Param: "token", Reason: "tokens are not imported yet", Hint: "leave them out"}
}
