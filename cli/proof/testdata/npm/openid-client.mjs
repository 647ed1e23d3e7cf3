// openid-client, by RFC 8414 discovery.
import { walk } from "./walk.mjs";
import * as oauth from "openid-client";

const ways = { basic: oauth.ClientSecretBasic, body: oauth.ClientSecretPost, none: oauth.None };
const tokens = (t) => ({ access: t.access_token, refresh: t.refresh_token, scope: t.scope, expiresIn: t.expiresIn() });

await walk(async ({ issuer, client_id, client_secret, redirect_uri, scope, way }) => {
  const config = await oauth.discovery(new URL(issuer), client_id, undefined, ways[way](client_secret), {
    algorithm: "oauth2",
    execute: [oauth.allowInsecureRequests], // plain http on loopback
  });
  return {
    issuer: config.serverMetadata().issuer,
    async ask() {
      const [verifier, state] = [oauth.randomPKCECodeVerifier(), oauth.randomState()];
      const challenge = await oauth.calculatePKCECodeChallenge(verifier);
      const url = oauth.buildAuthorizationUrl(config, { redirect_uri, scope, state, code_challenge: challenge, code_challenge_method: "S256" });
      return { url: url.href, verifier, state };
    },
    redeem: async (address, { verifier, state }) =>
      tokens(await oauth.authorizationCodeGrant(config, new URL(address), { pkceCodeVerifier: verifier, expectedState: state })),
    refresh: async ({ refresh }) => tokens(await oauth.refreshTokenGrant(config, refresh)),
    password: async (username, password) => tokens(await oauth.genericGrantRequest(config, "password", { username, password, scope })),
    introspect: ({ access }) => oauth.tokenIntrospection(config, access),
    revoke: (t, kind) => oauth.tokenRevocation(config, kind === "access_token" ? t.access : t.refresh, { token_type_hint: kind }),
    checksIssuer: true,
    // A refusal with a challenge is an error of its own, with the answer in it.
    codeOf: async (error) => error.error ?? (await error.response?.json())?.error,
  };
});
