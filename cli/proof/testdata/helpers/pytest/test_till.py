import os
import time
import urllib.error
import urllib.parse
import urllib.request


def sign_in(tollhouse):
    form = {"grant_type": "password", "client_id": tollhouse.client_id, "client_secret": tollhouse.client_secret,
            "username": tollhouse.username, "password": tollhouse.password}
    try:
        with urllib.request.urlopen(tollhouse.url + "/oauth/v2/token", urllib.parse.urlencode(form).encode()) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_sign_in_after_a_fault(tollhouse):
    rule = tollhouse.fault(match={"path": "/oauth/v2/token"}, count=1, do={"status": 503})
    assert [sign_in(tollhouse), sign_in(tollhouse)] == [503, 200]
    asked = tollhouse.requests(path="/oauth/v2/token")
    assert len(asked) == 2
    assert asked[0]["fault"] == rule
    assert asked[1]["status"] == 200


def test_the_next_test_begins_anew(tollhouse):
    assert tollhouse.requests() == []
    assert sign_in(tollhouse) == 200


def test_snapshot_and_restore(tollhouse):
    tollhouse.snapshot("empty")
    made = tollhouse.events({"type": "customer.created", "resource": "cus_1", "eventData": {"object": {"displayName": "Larkspur"}}})
    assert made[0]["type"] == "customer.created"
    many = tollhouse.call("GET", "/_dev/state")["events"]
    tollhouse.restore("empty")
    assert tollhouse.call("GET", "/_dev/state")["events"] == many - 1


def test_hanging(tollhouse):
    if file := os.environ.get("HANG"):
        open(file, "w").close()
        time.sleep(3600)
