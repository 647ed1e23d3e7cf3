package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store"
)

func addCodeExpires(c *cobra.Command, expires *term.Duration) {
	c.Flags().Var(expires, "code-expires", "`duration` for which the code can be used, from 1h to 14d")
}

func checkCodeExpires(d term.Duration) error {
	if lives := time.Duration(d); lives < store.UserCodeLifetimeMin || lives > store.UserCodeLifetimeMax {
		return term.Usage("give 1h to 14d, such as 7d", "--code-expires %s is out of range", &d)
	}
	return nil
}

func (p *program) userCode() *cobra.Command {
	expires := term.Duration(store.UserCodeLifetime)
	var all bool
	var out string
	c := &cobra.Command{
		Use:   "code NAME",
		Short: "print a code with which a user sets a new password",
		Long: `Print a code with which a user sets a new password at /new-password. The code works once,
expires after --code-expires and replaces any earlier code. The old password works until
then. Setting a password or disabling the user cancels the code.

With --all-without-password, make a code for each user who has no password, and write
them to a new file, one JSON object per line.`,
	}
	c.Args = func(c *cobra.Command, args []string) error {
		switch {
		case !all && out != "":
			return term.Usage("leave it out, or add --all-without-password", "--out is only for --all-without-password")
		case !all:
			return operands("a name")(c, args)
		case out == "":
			return term.Usage("add --out FILE", "--all-without-password needs a file for the codes")
		}
		return operands()(c, args)
	}
	c.RunE = p.doing(func(ctx context.Context, args []string) error {
		if err := checkCodeExpires(expires); err != nil {
			return err
		}
		asked := map[string]any{"code_expires_in": int64(time.Duration(expires) / time.Second)}
		if all {
			return p.codesForAll(ctx, asked, out)
		}
		return p.codeFor(ctx, asked, args[0])
	})
	addCodeExpires(c, &expires)
	c.Flags().BoolVar(&all, "all-without-password", false, "make a code for each user who has no password")
	c.Flags().StringVar(&out, "out", "", "new `file` for these codes")
	nameVariables(c.Flags(), "")
	return c
}

// userCode is a code for somebody to whom it is sent by name.
type userCode struct {
	UserID    string `json:"user_id"`
	Username  string `json:"username"`
	Code      string `json:"code"`
	ExpiresAt int64  `json:"expires_at"` // Unix seconds
	URL       string `json:"url,omitempty"`
}

func (p *program) codeFor(ctx context.Context, asked any, name string) error {
	var made userCode
	var address string
	err := p.manage(ctx, "user code", needsData, func(a *adminClient) error {
		address = codeAddress(a)
		u, err := a.userNamed(ctx, name)
		if err == nil {
			made, err = a.makeCode(ctx, u, asked)
		}
		return err
	})
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(made)
	}
	return p.printCode(made.Username, address, made.ExpiresAt, term.Row{"username", made.Username}, term.Row{"code", made.Code})
}

// codesMade is the result of codes for all users without a password.
type codesMade struct {
	File  string `json:"file"`
	Codes int64  `json:"codes"`
}

// codesForAll makes codes and writes each one before it makes the next. Codes of a command that
// fails are in the file, and work.
func (p *program) codesForAll(ctx context.Context, asked any, out string) error {
	made := codesMade{File: out}
	err := p.manage(ctx, "user code", needsData, func(a *adminClient) error {
		var users []admin.AdminUser
		err := each(ctx, a, pathOf("users"), func(u admin.AdminUser) error {
			if !u.HasPassword && !u.Disabled {
				users = append(users, u)
			}
			return nil
		})
		if err != nil {
			return err
		}
		f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case errors.Is(err, fs.ErrExist):
			return term.Fail(term.ExitConflict, "name a file that does not exist", "%s already exists", out)
		case err != nil:
			return term.Fail(term.ExitIO, "name a file in a directory that you may write", "--out %s: %w", out, term.PathReason(err))
		}
		err = a.makeCodes(ctx, asked, users, json.NewEncoder(datadir.DiskWriter{W: f, Name: out}), &made)
		return errors.Join(err, f.Sync(), f.Close())
	})
	if err != nil {
		if made.Codes > 0 {
			p.Note("%s has the %s made before the failure", out, term.Count(made.Codes, "code", "codes"))
		}
		return err
	}
	return p.Done(made, "wrote %s to %s", term.Count(made.Codes, "code", "codes"), out)
}

func (a *adminClient) makeCodes(ctx context.Context, asked any, users []admin.AdminUser, out *json.Encoder, made *codesMade) error {
	for _, u := range users {
		code, err := a.makeCode(ctx, u, asked)
		switch f := term.FailureOf(err); {
		case err != nil && (f.Code == term.ExitNotFound || f.Code == term.ExitConflict):
			continue // deleted or disabled since
		case err != nil:
			return err
		}
		if err := out.Encode(code); err != nil {
			return err
		}
		made.Codes++
	}
	return nil
}

func (a *adminClient) makeCode(ctx context.Context, u admin.AdminUser, asked any) (userCode, error) {
	var made admin.AdminUserCode
	err := a.withoutURL(a.call(ctx, "POST", pathOf("users", u.UserID, "code"), asked, &made), &made.URL)
	return userCode{UserID: made.UserID, Username: u.Username, Code: made.Code, ExpiresAt: made.ExpiresAt, URL: made.URL}, err
}

// codeAddress returns the address of the page for codes.
func codeAddress(a *adminClient) string {
	if a.own {
		return "/new-password on the server"
	}
	return a.info.URL + "/new-password"
}

// withoutURL clears an address of this very process, which has none.
func (a *adminClient) withoutURL(err error, url *string) error {
	if a.own {
		*url = ""
	}
	return err
}

// printCode shows rows with a code, and what to do with it.
func (p *program) printCode(username, address string, expires int64, rows ...term.Row) error {
	p.Note("send the code and the address to %s; the code works once, until %s, and is not shown again", username, term.ShowTime(expires))
	return p.PrintRows(append(rows, term.Row{"address", address})...)
}

// passwordState says whether a user has come: set a password, or not yet.
func passwordState(u admin.AdminUser) string {
	switch {
	case u.HasPassword:
		return "yes"
	case u.CodeExpiresAt == 0:
		return "none"
	}
	return "none; code until " + term.ShowTime(u.CodeExpiresAt)
}
