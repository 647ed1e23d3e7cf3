require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "doorkeeper"
require "bcrypt"
class Till < Rails::Application
  config.load_defaults 6.1
  config.eager_load = false
  config.secret_key_base = "only for this test"
  config.logger = ActiveSupport::Logger.new($stdout) # as newer versions of Rails have it
  config.log_level = ENV["FILL"] ? :fatal : :debug
end
