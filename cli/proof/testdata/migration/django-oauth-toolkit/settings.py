SECRET_KEY = "only for this test"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "app.sqlite3"}}
USE_TZ = True
OAUTH2_PROVIDER = {"SCOPES": {"read": "Read", "write": "Write", "openid": "Know who you are"}}
