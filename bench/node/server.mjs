// An OpenID provider in memory, with one client and one user. Its first line is JSON with its URL.
import Provider, { errors } from 'oidc-provider';

const [clientId, secret, username, password] = process.argv.slice(2);
console.info = () => {}; // notices go to standard output

// The provider's own store forgets the oldest of a thousand entries, so that clients lose
// their tokens under load, and each refresh walks all tokens of its grant.
const stored = new Map();
class Adapter {
  constructor(model) { this.model = model; }
  key(id) { return `${this.model}:${id}`; }
  async upsert(id, payload) { stored.set(this.key(id), payload); }
  async find(id) { return stored.get(this.key(id)); }
  async consume(id) { stored.get(this.key(id)).consumed = Math.floor(Date.now() / 1000); }
  async destroy(id) { stored.delete(this.key(id)); }
  async revokeByGrantId(grantId) {
    for (const [key, payload] of stored) if (payload.grantId === grantId) stored.delete(key);
  }
}

const provider = new Provider('http://127.0.0.1', {
  adapter: Adapter,
  clients: [{
    client_id: clientId, client_secret: secret, token_endpoint_auth_method: 'client_secret_post',
    grant_types: ['password', 'refresh_token'], response_types: [], redirect_uris: [],
  }],
  clientAuthMethods: ['client_secret_post'],
  features: { devInteractions: { enabled: false } },
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
  rotateRefreshToken: true,
  routes: { token: '/oauth/v2/token' },
  ttl: { AccessToken: 3600, Grant: 86400, RefreshToken: 86400 },
});

// The provider has no password grant of its own. Without the scope openid it signs no ID token.
provider.registerGrantType('password', async (ctx) => {
  const { client, params } = ctx.oidc;
  if (params.username !== username || params.password !== password) throw new errors.InvalidGrant('wrong password');
  const grantId = await new provider.Grant({ clientId, accountId: username }).save();
  const of = { client, accountId: username, grantId, gty: 'password' };
  const access = new provider.AccessToken(of);
  ctx.body = {
    access_token: await access.save(), expires_in: access.expiration, token_type: access.tokenType,
    refresh_token: await new provider.RefreshToken(of).save(),
  };
}, ['username', 'password']);

const server = provider.listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` }));
});
