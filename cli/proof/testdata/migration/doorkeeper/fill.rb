# Fills a database by Doorkeeper's own migration and models, with the strategies of config/environment.rb.
BCrypt::Engine.cost = 10
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define { create_table(:users) { |t| t.string :email; t.string :password_digest; t.timestamps } }
template = File.join(Gem.loaded_specs["doorkeeper"].full_gem_path, "lib/generators/doorkeeper/templates/migration.rb.erb")
eval(File.read(template).sub("<%= migration_version %>", "[6.1]"))
ActiveRecord::Migration.suppress_messages { CreateDoorkeeperTables.new.change }
password = "correct horse battery"
odile = User.create!(email: "odile@larkspur.example", password: password)
User.create!(email: "bertille@larkspur.example", password: password)
User.create!(email: "invited@larkspur.example")
zoe = User.create!(email: "Zoe@larkspur.example", password: password)
User.create!(email: "zoe@larkspur.example", password: password)
app = ->(name, uri, **more) { Doorkeeper::Application.create!({ name: name, uid: "#{name}-uid", redirect_uri: uri }.merge(more)) }
books = app.("books", "https://books.example/callback\nhttps://app.books.example/callback", scopes: "public write")
secret = Doorkeeper::SecretStoring::BCrypt.transform_secret("the-secret-of-the-books-application")
books.update_columns(secret: secret)
app.("old", "https://old.example/callback").update_columns(secret: "f6e2c5ad4d0fe43e6a6b9a7b8d8f7c1a2b3c4d5e6f708192a3b4c5d6e7f80910")
phone = app.("phone", "com.example.till:/callback", confidential: false)
job = app.("job", "https://job.example/callback")
app.("write\e[31m", "https://write.example/callback", scopes: "write")
token = lambda do |application, owner, access, refresh, **more|
  row = Doorkeeper::AccessToken.create!({ application: application, resource_owner_id: owner&.id, expires_in: 7200, scopes: "public", use_refresh_token: !refresh.nil? }.merge(more))
  hash = ->(text) { text && Doorkeeper::SecretStoring::Sha256Hash.transform_secret(text) }
  row.update_columns(token: hash.(access), refresh_token: hash.(refresh))
end
token.(books, odile, "access-of-odile-at-the-books", "refresh-of-odile-at-the-books")
token.(books, odile, "access-that-has-expired", "refresh-with-an-expired-access", created_at: 3.hours.ago)
token.(books, odile, "access-that-was-revoked", "refresh-that-was-revoked", revoked_at: Time.now)
token.(phone, odile, "access-alone-and-expired", nil, created_at: 3.hours.ago)
token.(phone, odile, "access-that-never-expires", nil, expires_in: nil)
token.(phone, odile, "access-without-a-scope-of-ours", nil, scopes: "write")
token.(job, nil, "access-of-the-job-itself", nil)
token.(books, zoe, "access-of-a-twin", "refresh-of-a-twin")
