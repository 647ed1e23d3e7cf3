# Hashes of the C library and of OpenSSL. On Debian:
#   apt-get install whois openssl
#   sh make.sh > shell.ndjson
P='correct horse battery staple é'
line() { printf '{"by":"%s","password":"%s","hash":"%s"}\n' "$1" "$P" "$2"; }
line mkpasswd "$(mkpasswd -m sha-256 "$P")"
line mkpasswd "$(mkpasswd -m sha-512 "$P")"
line mkpasswd "$(mkpasswd -m sha-512 -R 100000 "$P")"
line mkpasswd "$(mkpasswd -m bcrypt -R 5 "$P")"
line mkpasswd "$(mkpasswd -m bcrypt-a -R 10 "$P")"
line openssl "$(openssl passwd -5 "$P")"
line openssl "$(openssl passwd -6 -salt s "$P")"
