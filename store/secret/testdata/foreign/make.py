# Hashes of Python's libraries. On Debian:
#   apt-get install python3-django python3-passlib python3-bcrypt python3-argon2 python3-werkzeug
#   python3 make.py > python.ndjson
import base64
import hashlib
import json
import struct
import django.contrib.auth.hashers as d
import passlib.hash as p
import werkzeug.security as w
from django.conf import settings

settings.configure()
PASSWORD = "correct horse battery staple é"


def line(made_by, hash, password=PASSWORD, **more):
    print(json.dumps({"by": made_by, "password": password, "hash": hash, **more}, ensure_ascii=False))


line("django", d.PBKDF2PasswordHasher().encode(PASSWORD, "seasalt", 120000))
line("django", d.PBKDF2PasswordHasher().encode(PASSWORD, "seasalt", 36000))
line("django", d.PBKDF2SHA1PasswordHasher().encode(PASSWORD, "seasalt", 200000))
line("django", d.PBKDF2SHA1PasswordHasher().encode("", "seasalt", 1000), "")
line("django", d.BCryptSHA256PasswordHasher().encode(PASSWORD * 4, b"$2b$10$abcdefghijklmnopqrstuu"), PASSWORD * 4)
line("django", d.BCryptPasswordHasher().encode(PASSWORD, b"$2b$10$abcdefghijklmnopqrstuu"))
line("django", d.BCryptPasswordHasher().encode(PASSWORD, b"$2b$06$abcdefghijklmnopqrstuu"))
line("django", d.Argon2PasswordHasher().encode(PASSWORD, "seasaltseasalt"))
# Debian's Django has no ScryptPasswordHasher yet. This is what its encode returns since 4.0.
for n, r, p_, in [(2**14, 8, 5), (2**10, 8, 2)]:
    key = hashlib.scrypt(PASSWORD.encode(), salt=b"seasalt", n=n, r=r, p=p_, maxmem=2**27, dklen=64)
    line("hashlib, as django", "scrypt$%d$%s$%d$%d$%s" % (n, "seasalt", r, p_, base64.b64encode(key).decode()))

line("passlib", p.pbkdf2_sha1.using(rounds=1000).hash(PASSWORD))
line("passlib", p.pbkdf2_sha256.using(rounds=29000).hash(PASSWORD))
line("passlib", p.pbkdf2_sha256.using(rounds=100000).hash(PASSWORD))
line("passlib", p.pbkdf2_sha512.using(rounds=50000, salt_size=64).hash(PASSWORD))
line("passlib", p.bcrypt.using(rounds=10, ident="2a").hash(PASSWORD))
line("passlib", p.bcrypt.using(rounds=4, ident="2y").hash(PASSWORD))
line("passlib", p.scrypt.using(rounds=14).hash(PASSWORD))
line("passlib", p.scrypt.using(rounds=8, block_size=4, parallelism=3).hash(PASSWORD))
line("passlib", p.argon2.using(type="ID", rounds=3, memory_cost=65536, parallelism=4).hash(PASSWORD))
line("passlib", p.argon2.using(type="I", rounds=2, memory_cost=1024, parallelism=2, digest_size=16).hash(PASSWORD))
line("passlib", p.phpass.using(rounds=13).hash(PASSWORD))
line("passlib", p.phpass.using(rounds=7, ident="H").hash(PASSWORD))
for scheme in [p.ldap_salted_sha1, p.ldap_salted_sha256, p.ldap_salted_sha512, p.ldap_salted_md5]:
    line("passlib", scheme.hash(PASSWORD), allow=["digest"])
for scheme in [p.ldap_sha1, p.ldap_md5]:
    line("passlib", scheme.hash(PASSWORD), allow=["digest", "unsalted"])
for password in ["", "a", PASSWORD, "x" * 63, "y" * 64, "z" * 65, PASSWORD * 9]:
    line("passlib", p.sha256_crypt.using(rounds=1000).hash(password), password)
    line("passlib", p.sha512_crypt.using(rounds=5000).hash(password), password)
line("passlib", p.sha512_crypt.using(rounds=1777, salt="ab").hash(PASSWORD))

for method in ["pbkdf2:sha256:150000", "pbkdf2:sha1:1000", "pbkdf2:sha512:50000", "scrypt:32768:8:1"]:
    try:
        line("werkzeug", w.generate_password_hash(PASSWORD, method, 12))
    except ValueError:  # scrypt came with werkzeug 2.3
        pass

# Keycloak, ASP.NET Identity and Ory have no library here: these follow their published formats.
for name, iterations, size in [("sha1", 20000, 64), ("sha256", 27500, 64), ("sha256", 600000, 32), ("sha512", 210000, 64)]:
    salt = b"0123456789abcdef"
    key = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), salt, iterations, size)
    line("hashlib, as keycloak", {"scheme": "pbkdf2-" + name, "iterations": iterations, "salt": base64.b64encode(salt).decode(), "key": base64.b64encode(key).decode()})
salt = bytes(range(16))
v2 = b"\0" + salt + hashlib.pbkdf2_hmac("sha1", PASSWORD.encode(), salt, 1000, 32)
line("hashlib, as ASP.NET Identity 2", {"scheme": "aspnet", "hash": base64.b64encode(v2).decode()})
for prf, name, iterations in [(1, "sha256", 10000), (2, "sha512", 100000)]:
    v3 = struct.pack(">BIII", 1, prf, iterations, len(salt)) + salt + hashlib.pbkdf2_hmac(name, PASSWORD.encode(), salt, iterations, 32)
    line("hashlib, as ASP.NET Identity 3", {"scheme": "aspnet", "hash": base64.b64encode(v3).decode()})
raw = lambda b: base64.b64encode(b).decode().rstrip("=")
key = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt, 100000, 32)
line("hashlib, as ory", "$pbkdf2-sha256$i=100000,l=32$%s$%s" % (raw(salt), raw(key)))
