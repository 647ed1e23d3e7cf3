# Hashes of Ruby's bcrypt, which Devise and has_secure_password use. On Debian:
#   apt-get install ruby-bcrypt
#   ruby make.rb > ruby.ndjson
require "bcrypt"
require "json"

PASSWORD = "correct horse battery staple é"

[4, 10, 12].each do |cost|
  puts JSON.generate({ by: "ruby-bcrypt", password: PASSWORD, hash: BCrypt::Password.create(PASSWORD, cost: cost) })
end
