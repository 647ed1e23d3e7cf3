// The walk that every library takes. A driver opens its library as the manual
// of the library says and gives it these verbs; one that a library has no
// counterpart for is left out:
//
//   issuer                    what discovery found
//   ask()                     { url, … }: where to send the browser
//   redeem(address, asked)    tokens for the address at which it arrived
//   refresh(tokens)           tokens for the refresh token
//   password(name, password)  tokens by the password grant
//   introspect(tokens)        what the server says of the access token
//   revoke(tokens, kind)      ends "access_token" or "refresh_token"
//   codeOf(error)             the OAuth error code in what the library threw
//   checksIssuer              true for a library that obeys RFC 9207
//
// Tokens are { access, refresh, scope, expiresIn } and what else the library
// wants back.
import { finish, refusal, send, settings, step } from "./person.mjs";

// reach returns the status with which the API answers an access token.
async function reach({ access }) {
  const answer = await fetch(`${settings.issuer}/api/events?limit=1`, { headers: { authorization: `Bearer ${access}` } });
  await answer.arrayBuffer();
  return answer.status;
}

const message = (error) => `${error.message} ${error.cause?.message}`;

export async function walk(open) {
  const library = await open(settings);
  if (library.issuer) await step("discovery", () => library.issuer);
  await byCode(library);
  await rotation(library);
  await denial(library);
  if (library.introspect) await introspection(library, open);
  if (library.revoke) await revocation(library);
  if (library.password && settings.client_secret) await byPassword(library);
  if (settings.client_secret) {
    const impostor = await open({ ...settings, client_secret: "not-the_secret" });
    await refusal("wrong_secret", impostor.codeOf, () => impostor.refresh({ refresh: "tollrt_x", access: "tollat_x" }));
  }
  finish();
}

async function authorize(library, name) {
  const asked = await library.ask();
  const arrived = await send("allow", asked.url);
  return { asked, arrived, tokens: await step(name, () => library.redeem(arrived, asked)) };
}

async function byCode(library) {
  const { asked, arrived, tokens } = await authorize(library, "code");
  if (library.checksIssuer) {
    const forged = new URL(arrived);
    forged.searchParams.set("iss", "https://elsewhere.example");
    await refusal("issuer_of_another", message, () => library.redeem(forged.href, asked));
    forged.searchParams.delete("iss");
    await refusal("issuer_missing", message, () => library.redeem(forged.href, asked));
  }
  await step("code_reaches_the_api", () => reach(tokens));
  await refusal("used_code", library.codeOf, () => library.redeem(arrived, asked));
}

async function rotation(library) {
  const { tokens: first } = await authorize(library, "code_to_rotate");
  const second = await step("refresh", () => library.refresh(first));
  await step("lost_answer", () => library.refresh(first));
  const third = await step("refresh_again", () => library.refresh(second));
  await refusal("replay", library.codeOf, () => library.refresh(first));
  await refusal("replay_ends_the_family", library.codeOf, () => library.refresh(third));
  await step("replay_ends_access", () => reach(third));
}

async function denial(library) {
  const asked = await library.ask();
  const arrived = await send("deny", asked.url);
  await refusal("deny", library.codeOf, () => library.redeem(arrived, asked));
}

async function introspection(library, open) {
  const { tokens } = await authorize(library, "code_to_introspect");
  if (settings.client_secret) await step("introspect_own", () => library.introspect(tokens));
  const watcher = await open({ ...settings, ...settings.watcher });
  await step("introspect_as_watcher", () => watcher.introspect(tokens));
  await step("introspect_unknown", () => watcher.introspect({ access: "tollat_x" }));
}

async function revocation(library) {
  const { tokens } = await authorize(library, "code_to_revoke");
  await step("revoke_access", async () => (await library.revoke(tokens, "access_token"), reach(tokens)));
  const next = await step("refresh_after_revoke_access", () => library.refresh(tokens));
  await step("revoke_refresh", async () => (await library.revoke(next, "refresh_token"), reach(next)));
  await refusal("refresh_after_revoke_refresh", library.codeOf, () => library.refresh(next));
}

async function byPassword(library) {
  const tokens = await step("password", () => library.password(settings.username, settings.password));
  await step("password_reaches_the_api", () => reach(tokens));
  await refusal("wrong_password", library.codeOf, () => library.password(settings.username, "not the password"));
}
