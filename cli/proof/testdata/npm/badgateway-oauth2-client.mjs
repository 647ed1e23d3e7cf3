// @badgateway/oauth2-client, which finds the endpoints by RFC 8414 when it
// first needs one.
import { walk } from "./walk.mjs";
import { generateCodeVerifier, OAuth2Client } from "@badgateway/oauth2-client";

const ways = { basic: "client_secret_basic", basic_unencoded: "client_secret_basic_interop", body: "client_secret_post" };
const tokens = (t) => ({ ...t, access: t.accessToken, refresh: t.refreshToken, scope: t.scope?.join(" "), expiresIn: (t.expiresAt - Date.now()) / 1000 });
const back = (t) => ({ ...t, accessToken: t.access, refreshToken: t.refresh });

await walk(async ({ issuer, client_id, client_secret, redirect_uri, scope, way }) => {
  const client = new OAuth2Client({ server: issuer, clientId: client_id, clientSecret: client_secret, authenticationMethod: ways[way] });
  const scopes = scope.split(" ");
  return {
    // It keeps of discovery what it found, and not who answered.
    issuer: (await client.getEndpoint("tokenEndpoint")).replace("/oauth/v2/token", ""),
    async ask() {
      const [codeVerifier, state] = [await generateCodeVerifier(), crypto.randomUUID()];
      return { url: await client.authorizationCode.getAuthorizeUri({ redirectUri: redirect_uri, state, codeVerifier, scope: scopes }), codeVerifier, state };
    },
    redeem: async (address, { codeVerifier, state }) =>
      tokens(await client.authorizationCode.getTokenFromCodeRedirect(address, { redirectUri: redirect_uri, state, codeVerifier })),
    refresh: async (t) => tokens(await client.refreshToken(back(t))),
    password: async (username, password) => tokens(await client.password({ username, password, scope: scopes })),
    introspect: (t) => client.introspect(back(t)),
    revoke: (t, kind) => client.revoke(back(t), kind),
    codeOf: (error) => error.oauth2Code,
  };
});
