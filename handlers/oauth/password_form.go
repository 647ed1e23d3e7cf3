package oauth

import (
	"tollhouse/handlers/web"
	"tollhouse/store/secret"
	"tollhouse/views"
)

// checkPasswordChange checks the form before a password is hashed.
func checkPasswordChange(p web.Params) views.PasswordForm {
	form := views.PasswordForm{EndAll: p.Has("end_all")}
	if p.Value("current_password") == "" {
		form.Current = views.PasswordMissing
	}
	return checkNewPassword(p, form)
}

// checkNewPassword checks the two fields of a new password.
func checkNewPassword(p web.Params, form views.PasswordForm) views.PasswordForm {
	current, fresh := secret.PreparePassword(p.Value("current_password")), secret.PreparePassword(p.Value("new_password"))
	switch {
	case len(fresh) < secret.PasswordSizeMin:
		form.New = views.PasswordTooShort
	case len(fresh) > secret.PasswordSizeMax:
		form.New = views.PasswordTooLong
	case fresh == current:
		form.New = views.PasswordSame
	case fresh != secret.PreparePassword(p.Value("repeat_password")):
		form.Repeat = views.PasswordDiffers
	}
	if form.HasFault() {
		form.Refused = views.PasswordInvalid
	}
	return form
}
