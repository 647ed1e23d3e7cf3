// A job without a user, by openid-client.
import * as oauth from "openid-client";

const { issuer, client_id, client_secret, scope, events } = JSON.parse(process.argv[2]);
const config = await oauth.discovery(new URL(issuer), client_id, client_secret, undefined, { algorithm: "oauth2", execute: [oauth.allowInsecureRequests] });
const token = await oauth.clientCredentialsGrant(config, { scope });
const answer = await fetch(events, { headers: { authorization: `Bearer ${token.access_token}` } });
console.log(JSON.stringify({ refresh: token.refresh_token ?? null, scope: token.scope, status: answer.status }));
