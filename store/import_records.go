package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// at returns the time of creation that a line says, or now.
func (im *Importer) at(seconds *int64) time.Time {
	if seconds == nil {
		return im.store.Now()
	}
	return time.Unix(*seconds, 0).UTC()
}

// since returns since when a record is disabled.
func (im *Importer) since(disabled bool) time.Time {
	if !disabled {
		return time.Time{}
	}
	return im.store.Now()
}

// mustHaveAccount checks that an account exists, in the store or in the lines before. Errors:
// ErrUnknownAccount.
func (im *Importer) mustHaveAccount(r kv.Reader, id string) error {
	_, err := openAccount(r, id)
	if err == nil {
		return nil
	}
	if _, isSeen := im.seen.find("account", id); isSeen && record.IsAbsent(err) {
		return nil
	}
	if record.IsAbsent(err) || errors.Is(err, record.ErrConflict) {
		return ErrUnknownAccount
	}
	return err
}

// found is the outcome for a record that exists. A dry run saw it, or it is described.
func (im *Importer) exists(line, found description) (importOutcome, error) {
	return importOutcome{exists: true, differs: line.differs(found)}, nil
}

func (im *Importer) wasSeen(line description, found seenMembers) (importOutcome, error) {
	return importOutcome{exists: true, differs: line.differsFromSeen(found)}, nil
}

func (im *Importer) readAccount(r *moving.Account, item *importItem) error {
	if err := errors.Join(record.CheckAccountID(r.ID), checkName("name", r.Name, true)); err != nil {
		return err
	}
	a := im.store.newAccount(r.ID, r.Name)
	a.CreatedAt, a.DisabledAt = im.at(r.CreatedAt), im.since(r.Disabled)
	line := describeAccount(a, r.CreatedAt == nil)
	item.apply = func(tx kv.Txn) (importOutcome, error) {
		found, err := readAccount(tx, a.ID)
		if err == nil && !found.erasedSince.IsZero() {
			return importOutcome{}, conflict("account", "account", "wait until it is erased, and import again", "the account is being erased")
		}
		if err == nil {
			return im.exists(line, describeAccount(found, false))
		}
		if !record.IsAbsent(err) {
			return importOutcome{}, err
		}
		if found, isSeen := im.seen.find("account", a.ID); isSeen {
			return im.wasSeen(line, found)
		}
		return importOutcome{seen: []seenEntry{seenAs("account", a.ID, line)}}, writeAccount(tx, a)
	}
	return nil
}

func describeAccount(a Account, isTimeOpen bool) description {
	return description{{member: "name", text: a.Name}, describedBool("disabled", !a.DisabledAt.IsZero()), describedTime("created_at", a.CreatedAt, isTimeOpen)}
}

func (im *Importer) readClient(r *moving.Client, item *importItem) error {
	if r.ClientID == "" {
		return record.Invalid("client_id", "give the id of the old system, so that a second run knows the client", "client_id is missing")
	}
	if r.Platform || r.Introspect {
		if err := im.options.mustAllow("client", "the client is a platform client, or may introspect the tokens of others", AllowPrivileged); err != nil {
			return err
		}
	}
	vetted, err := im.vetRedirects(r.RedirectURIs)
	if err != nil {
		return err
	}
	s, now := im.store, im.store.Now()
	c := Client{ID: r.ClientID, RedirectURIs: vetted, CreatedAt: im.at(r.CreatedAt), DisabledAt: im.since(r.Disabled), Generation: secret.NewCount(s.random), Revision: secret.NewCount(s.random)}
	spec := ClientSpec{Name: cmp.Or(r.Name, r.ClientID), RedirectURIs: r.RedirectURIs, Grants: r.Grants, Scopes: r.Scopes, Public: r.Public, Introspect: r.Introspect, Consent: r.Consent, Account: r.Account, Platform: r.Platform}
	if err := errors.Join(checkClientID(c.ID), c.apply(spec, secret.NewID(nil), false)); err != nil {
		return err
	}
	if err := im.readClientSecret(r, &c, now); err != nil {
		return err
	}
	c.importedRevision = c.Revision
	item.size.writes = 2
	item.apply = func(tx kv.Txn) (importOutcome, error) { return im.applyClient(tx, r, c) }
	return nil
}

// vetRedirects returns the redirect URIs that only the operator may allow: plain http to other
// machines.
func (im *Importer) vetRedirects(uris []string) (vetted []string, err error) {
	for _, uri := range uris {
		rest, isHTTP := strings.CutPrefix(uri, "http://")
		if !isHTTP || CheckRedirectURI(uri) == nil || CheckRedirectURI("https://"+rest) != nil {
			continue // in order, or wrong for everybody
		}
		if err := im.options.mustAllow("client.redirect_uris", "a redirect URI is plain http on a host that is not this machine", AllowHTTPRedirects); err != nil {
			return nil, err
		}
		vetted = append(vetted, uri)
	}
	return vetted, nil
}

// readClientSecret gives a client the hash of its secret.
func (im *Importer) readClientSecret(r *moving.Client, c *Client, now time.Time) error {
	isGiven := r.ClientSecret != nil || !r.SecretHash.IsZero()
	switch {
	case r.Public && isGiven:
		return record.Invalid("client_secret", "leave out the secret, or public", "a public client has no secret")
	case r.Public:
		return nil
	case !isGiven:
		return record.Invalid("client_secret", `give the secret, or the hash of it; a client without one is "public":true`, "client_secret is missing")
	case r.ClientSecret == nil:
		v, err := snapshot.Parse(r.SecretHash.JSON, 2)
		var f secret.ForeignSecret
		if err == nil {
			f, err = secret.ParseForeignSecret(v)
		}
		if err != nil {
			return &moving.Error{Code: importInvalidHash, Param: "client.client_secret_hash", Reason: "client_secret_hash " + err.Error(), Hint: "docs/import.md lists the kinds of hashes"}
		}
		c.secrets = []clientSecret{{hash: f.Hash, foreign: f.Text, createdAt: now}}
		return nil
	}
	token, ok := secret.Fixture(string(*r.ClientSecret))
	if !ok {
		return record.Invalid("client_secret", "give another secret", "a client secret has 1 to %d bytes without control characters", secret.FixtureSizeMax)
	}
	isShort := secret.IsShort(string(*r.ClientSecret))
	if isShort {
		if err := im.options.mustAllow("client.client_secret", "the secret is short enough to guess", AllowShortSecrets); err != nil {
			return err
		}
	}
	c.secrets = []clientSecret{{hash: token.Hash(), createdAt: now, isShort: isShort}}
	return nil
}

func (im *Importer) applyClient(tx kv.Txn, r *moving.Client, c Client) (importOutcome, error) {
	if c.Account != "" {
		if err := im.mustHaveAccount(tx, c.Account); err != nil {
			return importOutcome{}, err
		}
	}
	line := describeClient(c, c, r.CreatedAt == nil)
	found, err := readClient(tx, c.ID)
	switch seen, isSeen := im.seen.find("client", c.ID); {
	case err == nil && found.Account != c.Account, isSeen && slices.Contains(line.differsFromSeen(seen), "account"):
		return importOutcome{}, conflict("client", "client_id", "give another id, or the account of that client", "another client has this id, which acts for another account")
	case err == nil:
		return im.foundClient(tx, r, line, c, found)
	case !record.IsAbsent(err):
		return importOutcome{}, err
	case isSeen:
		return im.wasSeen(line, seen)
	}
	counts, err := readClientCounts(tx)
	if err == nil && counts.clients+im.taken["clients"] >= im.store.clientsMax {
		err = ErrTooManyClients // before anything is written: the lines beside this one are committed
	}
	if err == nil {
		_, err = countClientChange(tx, 1)
	}
	if err == nil {
		err = tx.Set(record.ClientKey(c.ID), encodeClient(c), time.Time{})
	}
	return importOutcome{privileged: c.Platform || c.Introspect, gains: gained(c.gains(Client{}), c.ID), seen: []seenEntry{seenAs("client", c.ID, line)}, takes: []string{"clients"}}, err
}

// foundClient compares a client with the one that exists, and replaces that if it may.
func (im *Importer) foundClient(tx kv.Txn, r *moving.Client, line description, c, found Client) (importOutcome, error) {
	o, err := im.exists(line, describeClient(found, c, false))
	if err != nil || !im.options.Update || len(o.differs) == 0 || !found.isReplaceable() {
		return o, err
	}
	if _, err := tx.Get(record.ClientUseKey(c.ID)); !record.IsAbsent(err) {
		return o, err
	}
	if c.Generation, c.Revision = found.Generation, found.Revision+1; r.CreatedAt == nil {
		c.CreatedAt = found.CreatedAt
	}
	if c.importedRevision = c.Revision; !c.DisabledAt.IsZero() && found.DisabledAt.IsZero() {
		c.Generation++
	}
	return importOutcome{updated: true, privileged: c.Platform || c.Introspect, gains: gained(c.gains(found), c.ID)}, writeClient(tx, c)
}

// describeClient describes a client. Its secret is that of the other if both have it.
func describeClient(c, other Client, isTimeOpen bool) description {
	spec := c.spec()
	sec := described{member: "client_secret", isOpen: c.Public || other.Public}
	for i, s := range c.secrets {
		if i == 0 || len(other.secrets) > 0 && s.isSame(other.secrets[0]) {
			sec.text = s.text()
		}
	}
	return description{
		{member: "account", text: c.Account}, {member: "name", text: c.Name}, sec, describedList("redirect_uris", c.RedirectURIs), describedList("grants", spec.Grants),
		describedList("scopes", spec.Scopes), describedBool("public", c.Public), describedBool("introspect", c.Introspect), {member: "consent", text: c.Consent()},
		describedBool("platform", c.Platform), describedBool("disabled", !c.DisabledAt.IsZero()), describedTime("created_at", c.CreatedAt, isTimeOpen),
	}
}

// importedUser is a user of a line.
type importedUser struct {
	User
	line     *moving.User
	foreign  secret.Foreign // of the hash, if any
	hasID    bool
	hashKind string // as the summary counts it
	mustHash bool   // the text is made by prepare
	stored   string // the text of the user who exists and may be replaced, as prepare compares it
	isSame   bool   // it is of the password or the hash of the line
	factor   importedFactor
}

func (im *Importer) readUser(r *moving.User, item *importItem) error {
	u := &importedUser{line: r}
	account := cmp.Or(r.Account, DefaultAccount)
	made, err := newUser(UserSpec{Username: r.Username, Account: account, Operator: r.Operator})
	if err != nil {
		return err
	}
	u.User = made
	if r.ID == "" {
		u.ID = secret.NewID(im.store.random)
	} else if u.ID, u.hasID = numberNamed(subjectPrefix, r.ID); !u.hasID || u.ID.IsZero() { // zero is nobody
		return record.Invalid("user_id", "leave it out to have one drawn", "user_id is not an id of tollhouse")
	}
	if r.Operator {
		if err := im.options.mustAllow("user.operator", "the user is an operator", AllowPrivileged); err != nil {
			return err
		}
	}
	u.CreatedAt, u.DisabledAt, u.Revision, u.importedRevision = im.at(r.CreatedAt), im.since(r.Disabled), 1, 1
	if err := im.readPassword(r, u); err != nil {
		return err
	}
	if u.factor, err = im.readFactor(r); err != nil {
		return err
	}
	item.size.writes = importUserWrites
	if u.mustHash {
		item.prepare = func(ctx context.Context) error { return im.hash(ctx, u) }
		item.wants = func(r kv.Reader) (bool, error) {
			found, err := readUserByName(r, u.Canonical)
			if record.IsAbsent(err) {
				return !im.options.DryRun, nil
			}
			u.stored = found.password
			return im.options.Update && found.isReplaceable(), err
		}
	}
	item.apply = func(tx kv.Txn) (importOutcome, error) { return im.applyUser(tx, u) }
	return nil
}

// importUserWrites is what a user may write: the record, the name, the entry of the account, the
// counts of hashes, and the second factor.
const importUserWrites = 6

// readPassword checks the password or the hash of a line.
func (im *Importer) readPassword(r *moving.User, u *importedUser) (err error) {
	switch {
	case r.Password != nil:
		u.hashKind, u.mustHash = "plain", true
		return im.options.checkPlain(string(*r.Password))
	case r.PasswordHash.IsZero():
		return nil
	}
	u.foreign, err = im.options.parseHash(r.PasswordHash)
	u.mustHash, u.hashKind = u.foreign.Text == "", u.foreign.Kind
	if !u.mustHash { // else prepare does it, and a dry run does not
		u.setImported(u.foreign, im.store.Now())
	}
	if u.foreign.Wrapped {
		u.hashKind += " wrapped"
	}
	return err
}

// checkPlain checks a password that is in the line itself.
func (o ImportOptions) checkPlain(password string) error {
	if n := len(secret.PreparePassword(password)); n < 1 || n > secret.PasswordSizeMax {
		return record.Invalid("password", "give another password, or leave it out", "a password has 1 to %d bytes; this one has %d", secret.PasswordSizeMax, n)
	}
	return o.mustAllow("user.password", "the line has the password itself", AllowPlain)
}

// parseHash reads the hash of a password.
func (o ImportOptions) parseHash(h moving.Hash) (f secret.Foreign, err error) {
	v, err := snapshot.Parse(h.JSON, 2)
	if err == nil {
		f, err = secret.ParseForeign(v)
	}
	if err != nil {
		return f, &moving.Error{Code: importInvalidHash, Param: "user.password_hash", Reason: "password_hash " + err.Error(), Hint: "docs/import.md lists the kinds of hashes"}
	}
	return f, o.mustAllow("user.password_hash", "the hash is of a kind that is fast to guess", f.Needs...)
}

// Tries reports whether the password or the hash of a user's line accepts a password. Nothing is
// stored. isThere is false for a line with neither. Errors: *moving.Error, *InvalidError, ErrBusy.
func (o ImportOptions) Tries(ctx context.Context, h *secret.Hasher, u *moving.User, password string) (accepted, isThere bool, err error) {
	if u.Password != nil {
		if err := o.checkPlain(string(*u.Password)); err != nil {
			return false, true, err
		}
		return secret.PreparePassword(string(*u.Password)) == secret.PreparePassword(password), true, nil
	}
	if u.PasswordHash.IsZero() {
		return false, false, nil
	}
	f, err := o.parseHash(u.PasswordHash)
	if err == nil {
		f, err = h.Wrap(ctx, secret.Caller{}, f)
	}
	if err != nil {
		return false, true, err
	}
	verdict, err := h.Verify(ctx, secret.Caller{}, f.Text, password)
	return verdict.Match, true, err
}

// hash makes the text that the record keeps, in the operator's turn. While others hash, it waits.
func (im *Importer) hash(ctx context.Context, u *importedUser) error {
	for {
		err := im.tryHash(ctx, u)
		if !errors.Is(err, secret.ErrBusy) {
			return err
		}
		select {
		case <-time.After(busyPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// busyPause is how long a line waits before it tries again when the queue for hashing is full.
const busyPause = 100 * time.Millisecond

func (im *Importer) tryHash(ctx context.Context, u *importedUser) (err error) {
	if u.isSame, err = im.isStored(ctx, u); err != nil || u.isSame || im.options.DryRun {
		return err
	}
	if u.line.Password != nil {
		u.password, err = im.store.hasher.Hash(ctx, secret.Caller{}, string(*u.line.Password))
		return err
	}
	f, err := im.store.hasher.Wrap(ctx, secret.Caller{}, u.foreign)
	if err == nil {
		u.setImported(f, im.store.Now())
	}
	return err
}

// isStored reports whether the user who exists has the password or the hash of the line already.
func (im *Importer) isStored(ctx context.Context, u *importedUser) (bool, error) {
	switch {
	case u.stored == "":
		return false, nil
	case u.line.Password == nil:
		return im.store.hasher.Is(ctx, secret.Caller{}, u.stored, u.foreign)
	}
	v, err := im.store.hasher.Verify(ctx, secret.Caller{}, u.stored, string(*u.line.Password))
	return v.Match, err
}

// prepare hashes for the lines that need it, several at the same time.
func (im *Importer) prepare(ctx context.Context, items []*importItem) error {
	var wanted []*importItem
	err := im.store.db.View(ctx, func(r kv.Reader) error {
		wanted = nil
		for _, item := range items {
			if item.prepare == nil {
				continue
			}
			isWanted, err := item.wants(r)
			if err != nil {
				return err
			}
			if isWanted {
				wanted = append(wanted, item)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	errs, work := make([]error, hashesTogether), make(chan *importItem)
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			for item := range work {
				if errs[i] == nil {
					errs[i] = item.prepare(ctx)
				}
			}
		})
	}
	for _, item := range wanted {
		work <- item
	}
	close(work)
	workers.Wait()
	return errors.Join(errs...)
}

// hashesTogether is how many hashes an import makes at the same time. Each waits for a turn, which
// there is for each processor.
const hashesTogether = 4

func (im *Importer) applyUser(tx kv.Txn, u *importedUser) (importOutcome, error) {
	if err := im.mustHaveAccount(tx, u.Account); err != nil {
		return importOutcome{}, err
	}
	line := u.describe()
	whole := line // as lines of a dry run are compared
	if u.foreign.Wrapped && u.mustHash {
		whole = slices.Clone(line)
		whole[3].text, whole[3].isOpen = u.foreign.Shape(), false
	}
	found, err := readUserByName(tx, u.Canonical)
	seen, isSeen := im.seen.find("user", u.Canonical)
	switch {
	case err == nil && (found.Account != u.Account || u.hasID && found.ID != u.ID),
		isSeen && slices.ContainsFunc(whole.differsFromSeen(seen), func(member string) bool { return member == "account" || member == "user_id" }):
		return importOutcome{}, conflict("user", "username", "give another name, or the account and the id of that user", "another user has this name, in another account or with another id")
	case err == nil:
		return im.foundUser(tx, u, line, found)
	case !record.IsAbsent(err):
		return importOutcome{}, err
	case isSeen:
		return im.wasSeen(whole, seen)
	}
	_, err = tx.Get(record.UserKey(u.ID))
	if _, isSeen := im.seen.find("user_id", u.Subject()); err == nil || isSeen {
		return importOutcome{}, conflict("user", "user_id", "leave it out, or give the name of that user", "another user has this id")
	}
	if !record.IsAbsent(err) {
		return importOutcome{}, err
	}
	if u.mustHash && u.password == "" && !im.options.DryRun {
		return importOutcome{}, conflict("user", "username", "import again", "the user was deleted in the meantime")
	}
	o := importOutcome{privileged: u.Operator, gains: gained(u.Operator, u.Subject()), hash: u.hashKind, noPassword: u.hashKind == "", seen: []seenEntry{seenAs("user", u.Canonical, whole)}}
	if u.hasID {
		o.seen = append(o.seen, seenAs("user_id", u.Subject(), nil))
	}
	made := u.User // a closure may run again
	return o, errors.Join(tx.Set(record.UserNameKey(u.Canonical), u.ID[:], time.Time{}), tx.Set(u.indexKey(), nil, time.Time{}), im.writeImportedFactor(tx, &made, u.factor), writeUser(tx, User{}, made))
}

// foundUser compares a user with the one that exists, and replaces that if it may.
func (im *Importer) foundUser(tx kv.Txn, u *importedUser, line description, found User) (importOutcome, error) {
	stored, err := im.describeStoredFactor(tx, found)
	if err != nil {
		return importOutcome{}, err
	}
	o, err := im.exists(line, append(describeUser(found), stored...))
	if u.foreign.Wrapped && u.mustHash && !u.foreign.MayBe(found.password) {
		o.differs = append(o.differs, "password_hash")
	}
	isSame := u.isSame && u.stored == found.password
	isNew := len(o.differs) > 0 || u.mustHash && !isSame && (u.password != "" || im.options.DryRun)
	if err != nil || !im.options.Update || !isNew || !found.isReplaceable() {
		return o, err
	}
	if _, err := tx.Get(record.SignInKey(found.ID)); !record.IsAbsent(err) {
		return o, err
	}
	next := found
	next.Username, next.Operator, next.DisabledAt = u.Username, u.Operator, u.DisabledAt
	if u.line.CreatedAt != nil {
		next.CreatedAt = u.CreatedAt
	}
	if u.password != "" {
		next.password, next.importedOn = u.password, u.importedOn
	}
	if !u.DisabledAt.IsZero() && found.DisabledAt.IsZero() {
		next.Generation++
	}
	next.Revision++
	next.importedRevision = next.Revision
	if err := im.writeImportedFactor(tx, &next, u.factor); err != nil {
		return o, err
	}
	return importOutcome{updated: true, privileged: u.Operator, gains: gained(u.Operator && !found.Operator, found.Subject()), hash: u.hashKind, noPassword: next.password == ""}, writeUser(tx, found, next)
}

// describe describes the user of a line. What is hashed only now cannot be compared.
func (u *importedUser) describe() description {
	d := describeUser(u.User)
	d[1].isOpen = !u.hasID
	d[3].isOpen = u.password == "" || u.mustHash
	d[6].isOpen = u.line.CreatedAt == nil
	given := factor{recovery: u.factor.recovery, passkeys: u.factor.passkeys}
	return append(d, describeFactor(u.factor.app.Reveal(), given, u.factor.isZero())...)
}

func describeUser(u User) description {
	return description{
		{member: "account", text: u.Account}, {member: "user_id", text: u.Subject()}, {member: "username", text: u.Username}, {member: "password_hash", text: u.password},
		describedBool("operator", u.Operator), describedBool("disabled", !u.DisabledAt.IsZero()), describedTime("created_at", u.CreatedAt, false),
	}
}
