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
print(json.dumps(said, separators=(",", ":")))
