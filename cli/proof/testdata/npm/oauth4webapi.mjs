// oauth4webapi, which does each step of the protocol by itself, and reads every
// answer as strictly as the rules allow.
import { walk } from "./walk.mjs";
import * as oauth from "oauth4webapi";

const loopback = { [oauth.allowInsecureRequests]: true }; // plain http
const ways = { basic: oauth.ClientSecretBasic, body: oauth.ClientSecretPost, none: oauth.None };
const tokens = (t) => ({ access: t.access_token, refresh: t.refresh_token, scope: t.scope, expiresIn: t.expires_in });

await walk(async ({ issuer, client_id, client_secret, redirect_uri, scope, way }) => {
  const found = await oauth.discoveryRequest(new URL(issuer), { algorithm: "oauth2", ...loopback });
  const server = await oauth.processDiscoveryResponse(new URL(issuer), found);
  const client = { client_id };
  const proof = ways[way](client_secret);
  return {
    issuer: server.issuer,
    async ask() {
      const [verifier, state] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState()];
      const url = new URL(server.authorization_endpoint);
      const challenge = await oauth.calculatePKCECodeChallenge(verifier);
      url.search = new URLSearchParams({
        client_id, redirect_uri, scope, state, response_type: "code", code_challenge: challenge, code_challenge_method: "S256",
      });
      return { url: url.href, verifier, state };
    },
    async redeem(address, { verifier, state }) {
      const response = oauth.validateAuthResponse(server, client, new URL(address), state);
      const answer = await oauth.authorizationCodeGrantRequest(server, client, proof, response, redirect_uri, verifier, loopback);
      return tokens(await oauth.processAuthorizationCodeResponse(server, client, answer));
    },
    async refresh({ refresh }) {
      const answer = await oauth.refreshTokenGrantRequest(server, client, proof, refresh, loopback);
      return tokens(await oauth.processRefreshTokenResponse(server, client, answer));
    },
    async password(username, password) {
      const answer = await oauth.genericTokenEndpointRequest(server, client, proof, "password", { username, password, scope }, loopback);
      return tokens(await oauth.processGenericTokenEndpointResponse(server, client, answer));
    },
    async introspect({ access }) {
      const answer = await oauth.introspectionRequest(server, client, proof, access, loopback);
      return oauth.processIntrospectionResponse(server, client, answer);
    },
    async revoke(t, kind) {
      const token = kind === "access_token" ? t.access : t.refresh;
      const answer = await oauth.revocationRequest(server, client, proof, token, { ...loopback, additionalParameters: { token_type_hint: kind } });
      return oauth.processRevocationResponse(answer);
    },
    checksIssuer: true,
    codeOf: async (error) => error.error ?? (await error.response?.json())?.error,
  };
});
