# Fills a database of django-oauth-toolkit by its own models. A hashed client secret is as version 2 stores it; 1.7, which
# Debian has, stores it plain.
from datetime import timedelta
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application, RefreshToken
call_command("migrate", verbosity=0)
now, password = timezone.now(), "correct horse battery"
odile = User.objects.create_user("odile", password=password)
User.objects.create(username="bertille", password=make_password(password, hasher="argon2"))
User.objects.create_user("gone", password=password, is_active=False)
User.objects.create_user("invited")
zoe = User.objects.create_user("Zoe", password=password)
User.objects.create_user("zoe", password=password)
def app(name, kind, grant, uris="", secret="ooTh3ahquee8Eing9aeyoo6Iechi0eiChahph2Ahp6ohz4ee"):
    return Application.objects.create(name=name, client_id=name + "-id", client_type=kind, authorization_grant_type=grant, redirect_uris=uris, client_secret=secret)
books = app("books", "confidential", "password")
app("web", "confidential", "authorization-code", "https://books.example/callback https://*.books.example/callback", make_password("the-secret-of-the-web-application"))
job = app("job", "confidential", "client-credentials")
app("phone", "public", "authorization-code", "com.example.till:/callback http://127.0.0.1/callback")
app("implicit\x1b[31m", "public", "implicit", "https://implicit.example/callback")
def pair(user, application, scope, text, hours=1, revoked=None):
    access = AccessToken.objects.create(user=user, application=application, token="access-" + text, scope=scope, expires=now + timedelta(hours=hours))
    RefreshToken.objects.create(user=user, application=application, token="refresh-" + text, access_token=access, revoked=revoked)
pair(odile, books, "read openid", "of-odile-at-the-books")
pair(odile, books, "read", "of-odile-with-an-expired-access", hours=-1)
pair(odile, books, "read", "that-was-revoked", revoked=now)
pair(odile, books, "openid", "without-a-scope-of-ours")
pair(zoe, books, "read", "of-a-twin")
AccessToken.objects.create(user=odile, application=books, token="access-alone-of-odile", scope="read", expires=now + timedelta(hours=1))
AccessToken.objects.create(application=job, token="access-of-the-job-itself", scope="read", expires=now + timedelta(hours=1))
