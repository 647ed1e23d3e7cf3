require_relative "application"
Till.initialize!
Doorkeeper.configure do
  orm :active_record
  default_scopes :public
  optional_scopes :write
  grant_flows %w[authorization_code password client_credentials]
  use_refresh_token
  hash_token_secrets
  hash_application_secrets using: "::Doorkeeper::SecretStoring::BCrypt", fallback: :plain
end
class User < ActiveRecord::Base
  has_secure_password validations: false
end
