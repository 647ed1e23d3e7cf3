import urllib.error
import urllib.request


def list_events(tollhouse, token):
    request = urllib.request.Request(tollhouse.url + "/api/events", headers={"Authorization": "Bearer " + token})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_expired_token(tollhouse):
    token = tollhouse.token(scope="events:read", expires_in=3600)["access_token"]
    assert list_events(tollhouse, token) == 200
    tollhouse.advance("2h")
    assert list_events(tollhouse, token) == 401
    refused = tollhouse.requests(status=401)
    assert [entry["error"] for entry in refused] == ["invalid_token"]
