# Writes the files of `kc.sh export --users different_files` as Keycloak 26 has them, with hashes of the argon2 and the
# hashlib library in place of Keycloak's own code.
import base64, hashlib, json, os
from argon2.low_level import Type, hash_secret_raw
password = "correct horse battery"
text = lambda raw: base64.b64encode(raw).decode()
def credential(algorithm, iterations, key, salt, **more):
    return {"type": "password", "createdDate": 1767607200000,
            "secretData": json.dumps({"value": text(key), "salt": text(salt), "additionalParameters": {}}),
            "credentialData": json.dumps({"hashIterations": iterations, "algorithm": algorithm, "additionalParameters": more})}
def argon2(salt):
    key = hash_secret_raw(password.encode(), salt, 5, 7168, 1, 32, Type.ID)
    return credential("argon2", 5, key, salt, hashLength=["32"], memory=["7168"], type=["id"], version=["1.3"], parallelism=["1"])
def pbkdf2(name, digest, iterations, size, salt):
    return credential(name, iterations, hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations, size), salt)
def user(name, *credentials, **more):
    return {"id": name, "username": name, "enabled": True, "createdTimestamp": 1767607200123, "credentials": list(credentials), "totp": False, **more}
def client(id, **more):
    return {"clientId": id, "enabled": True, "protocol": "openid-connect", "clientAuthenticatorType": "client-secret", "publicClient": False,
            "standardFlowEnabled": True, "implicitFlowEnabled": False, "directAccessGrantsEnabled": False, "serviceAccountsEnabled": False,
            "redirectUris": [], "webOrigins": [], "defaultClientScopes": ["profile", "orders"], "optionalClientScopes": ["offline_access"], **more}
clients = [
    client("account", rootUrl="${authBaseUrl}", redirectUris=["/realms/larkspur/account/*"], publicClient=True),
    client("books", name="Larkspur Bookkeeping", secret="ZWq3hVJ8dEn2xT6gRk9LsYcB4mPaUf7t", directAccessGrantsEnabled=True,
           rootUrl="https://books.example", redirectUris=["/callback", "https://books.example/*"]),
    client("phone", publicClient=True, redirectUris=["com.example.till:/callback"]),
    client("job", secret="Nn5kC2yVb8QmR7tWx4ZsLd9FhGjP3aKe", standardFlowEnabled=False, serviceAccountsEnabled=True),
    client("stars", secret="**********", redirectUris=["https://stars.example/callback"]),
    client("wild", secret="Ts8uB5wXe3GpQ6rZy9VcMf2JkHnL7dAi", redirectUris=["*"]),
    client("sheet", protocol="saml", redirectUris=["https://sheet.example/callback"]),
]
users = [user("odile", argon2(b"0123456789abcdef"), {"type": "otp", "secretData": "{}", "credentialData": "{}"}),
         user("bertille", pbkdf2("pbkdf2-sha256", "sha256", 27500, 64, b"fedcba9876543210")),
         user("clement", pbkdf2("pbkdf2-sha512", "sha512", 210000, 64, b"fedcba9876543210")),
         user("denise", pbkdf2("pbkdf2", "sha1", 20000, 64, b"fedcba9876543210"), enabled=False),
         user("invited"), user("service-account-job", serviceAccountClientId="job")]
os.makedirs("export")
def write(name, value):
    with open(os.path.join("export", name), "w") as file: json.dump(value, file, indent=2)
write("larkspur-realm.json", {"realm": "larkspur", "enabled": True, "clients": clients})
write("larkspur-users-0.json", {"realm": "larkspur", "users": users[:3]})
write("larkspur-users-1.json", {"realm": "larkspur", "users": users[3:]})
write("larkspur-federated-users-0.json", {"realm": "larkspur", "federatedUsers": [{"id": "f:ldap:harriet", "username": "harriet"}]})
