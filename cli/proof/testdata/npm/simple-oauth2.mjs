// simple-oauth2, which knows neither discovery nor introspection, takes PKCE as
// parameters like any other, and can write credentials and bodies in ways that
// no other library does.
import { walk } from "./walk.mjs";
import { createHash, randomBytes } from "node:crypto";
import simple from "simple-oauth2";

const ways = {
  basic: { authorizationMethod: "header" },
  basic_unencoded: { authorizationMethod: "header", credentialsEncodingMode: "loose" },
  body: { authorizationMethod: "body" },
  body_as_json: { authorizationMethod: "body", bodyFormat: "json" },
  none: { authorizationMethod: "body" }, // it sends an empty client_secret
};
const tokens = (t) => ({ access: t.token.access_token, refresh: t.token.refresh_token, scope: t.token.scope, expiresIn: t.token.expires_in, raw: t.token });

await walk(async ({ issuer, client_id, client_secret, redirect_uri, scope, way }) => {
  const settings = {
    client: { id: client_id, secret: client_secret ?? "" },
    auth: { tokenHost: issuer, tokenPath: "/oauth/v2/token", revokePath: "/oauth/v2/revoke" },
    options: ways[way],
  };
  const code = new simple.AuthorizationCode({ ...settings, auth: { ...settings.auth, authorizePath: "/oauth/v2/auth" } });
  const password = new simple.ResourceOwnerPassword(settings);
  return {
    async ask() {
      const [verifier, state] = [randomBytes(32).toString("base64url"), randomBytes(16).toString("base64url")];
      const challenge = createHash("sha256").update(verifier).digest("base64url");
      return { url: code.authorizeURL({ redirect_uri, scope, state, code_challenge: challenge, code_challenge_method: "S256" }), verifier };
    },
    async redeem(address, { verifier }) {
      const arrived = new URL(address).searchParams; // the library does not read the address
      if (arrived.has("error")) throw Object.assign(new Error(arrived.get("error_description")), { code: arrived.get("error") });
      return tokens(await code.getToken({ code: arrived.get("code"), redirect_uri, code_verifier: verifier }));
    },
    refresh: async (t) => tokens(await code.createToken(t.raw ?? { refresh_token: t.refresh }).refresh()),
    password: async (username, secret) => tokens(await password.getToken({ username, password: secret, scope })),
    revoke: (t, kind) => code.createToken(t.raw).revoke(kind),
    codeOf: (error) => error.data?.payload?.error ?? error.code,
  };
});
