// A job without a user, by oauth4webapi.
import * as oauth from "oauth4webapi";

const { issuer, client_id, client_secret, scope, events } = JSON.parse(process.argv[2]);
const loopback = { [oauth.allowInsecureRequests]: true }; // plain http
const found = await oauth.discoveryRequest(new URL(issuer), { algorithm: "oauth2", ...loopback });
const server = await oauth.processDiscoveryResponse(new URL(issuer), found);
const client = { client_id };
const asked = await oauth.clientCredentialsGrantRequest(server, client, oauth.ClientSecretBasic(client_secret), { scope }, loopback);
const token = await oauth.processClientCredentialsResponse(server, client, asked);
const answer = await oauth.protectedResourceRequest(token.access_token, "GET", new URL(events), undefined, undefined, loopback);
console.log(JSON.stringify({ refresh: token.refresh_token ?? null, scope: token.scope, status: answer.status }));
