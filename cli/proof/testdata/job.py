"""A job without a user, by requests-oauthlib."""

import json
import os
import sys

os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"  # plain http on loopback

from oauthlib.oauth2 import BackendApplicationClient
from requests_oauthlib import OAuth2Session

job = json.loads(sys.argv[1])
session = OAuth2Session(client=BackendApplicationClient(client_id=job["client_id"], scope=job["scope"]))
token = session.fetch_token(job["issuer"] + "/oauth/v2/token", client_id=job["client_id"], client_secret=job["client_secret"])
answer = session.get(job["events"])
said = {"refresh": token.get("refresh_token"), "scope": " ".join(token["scope"]), "status": answer.status_code}

# The session adds its access token to the revocation too.
form = {"token": token["access_token"], "client_id": job["client_id"], "client_secret": job["client_secret"]}
answer = session.post(job["issuer"] + "/oauth/v2/revoke", data=form)
assert answer.status_code == 200, answer.text
assert session.get(job["events"]).status_code == 401
print(json.dumps(said, separators=(",", ":")))
