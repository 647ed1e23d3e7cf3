package desk

import (
	"errors"
	"net/http"
	"strings"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
	"tollhouse/views"
)

// webhookAsked is the form of a new endpoint as it was typed.
type webhookAsked struct {
	account, from string
	settings      webhook.Settings
	refused       views.Refusal
}

// newWebhook is GET /desk/new-webhook.
func (s *Server) newWebhook(v *visit) error {
	asked := webhookAsked{account: v.session.User.Account, from: "now", settings: webhook.Settings{Order: webhook.Strict}}
	return v.showNewWebhook(http.StatusOK, asked, onceField())
}

func (v *visit) showNewWebhook(status int, a webhookAsked, once string) error {
	p := views.NewWebhookProps{
		Address: a.settings.URL, Description: a.settings.Description, Account: a.account, Types: a.settings.Types, Order: string(a.settings.Order), From: a.from,
		Refusal: a.refused, URL: deskWebhooksPath, Once: once,
	}
	accounts, err := v.s.site.Store.ListAccounts(v.ctx, "", accountsShown)
	if err != nil {
		return err
	}
	for _, account := range accounts {
		p.Accounts = append(p.Accounts, account.ID)
	}
	p.Frame = v.frame()
	v.draw(status, views.NewWebhook(p))
	return nil
}

func (v *posted) askedWebhook() webhookAsked {
	a := webhookAsked{
		account: strings.TrimSpace(v.form.Value("account")), from: v.form.Value("from"),
		settings: webhook.Settings{URL: strings.TrimSpace(v.form.Value("url")), Description: strings.TrimSpace(v.form.Value("description")), Order: webhook.Order(v.form.Value("order"))},
	}
	if types := strings.FieldsFunc(v.form.Value("types"), func(r rune) bool { return strings.ContainsRune(" ,\t\r\n", r) }); len(types) > 0 {
		a.settings.Types = types
	}
	if a.from == "start" {
		a.settings.From = webhook.FromStart()
	}
	return a
}

// createWebhook is POST /desk/webhooks. Only its answer shows the secret.
func (s *Server) createWebhook(v *posted) error {
	return v.makeOnce(func() (done onceDone, err error) {
		a := v.askedWebhook()
		e, sec, err := v.createAsked(a)
		if err == nil {
			return v.showWebhookSecret(e, sec, views.WebhookSecretProps{New: true}), nil
		}
		if a.refused = webhookRefusal(err); a.refused == nil {
			return done, api.WebhookProblem(err)
		}
		return done, v.showNewWebhook(http.StatusBadRequest, a, v.form.Value("once"))
	})
}

func (v *posted) createAsked(a webhookAsked) (e webhook.Endpoint, sec secret.Token, err error) {
	if a.account != eventlog.AllAccounts {
		if _, err = v.s.site.Store.FindAccount(v.ctx, a.account); errors.Is(err, record.ErrNotFound) {
			err = record.Invalid("account", "", "there is no account %.64q", a.account)
		}
		if err != nil {
			return e, sec, err
		}
	}
	if a.settings.URL, err = v.s.api.ParseWebhookURL(a.settings.URL); err != nil {
		return e, sec, err
	}
	return v.s.site.Store.Webhooks.Create(v.ctx, v.webhooksBy(), a.account, a.settings)
}

// webhookRefusal sorts a refusal of an endpoint by field; nil if no field is to blame.
func webhookRefusal(err error) views.Refusal {
	var url *target.Error
	if errors.As(err, &url) {
		return views.Refusal{"url": strings.TrimSpace(web.Sentence(url.Reason, "url") + " " + web.Sentence(url.Hint, ""))}
	}
	if refused := refusalOf(err); len(refused) > 0 {
		return refused
	}
	return nil
}
