// A program that calls the API by what @hey-api/openapi-ts generates.
import { issueToken, listEvents, patchResource, putResource } from "./hey-api";
import { client } from "./hey-api/client.gen";

declare const process: { env: Record<string, string | undefined> };
const demo = JSON.parse(process.env["DEMO"] ?? "{}");

async function main() {
  client.setConfig({ baseUrl: demo.url });
  const issued = await issueToken({
    body: { grant_type: "password", client_id: demo.client_id, client_secret: demo.client_secret, username: demo.username, password: demo.password },
  });
  if (!issued.data) throw new Error(issued.error.error_description);
  const auth: string = issued.data.access_token;

  const page = await listEvents({ auth, query: { type: ["customer.created", "customer.updated"], order: "asc", limit: 3 } });
  if (!page.data) throw new Error(page.error.error_description);
  const ids: string[] = page.data.data.map((event) => event.id);
  const kinds: string[] = page.data.data.map((event) => event.eventData.object.object);

  const put = await putResource({ auth, path: { kind: "plan", id: "by_heyapi" }, body: { name: "Larkspur" } });
  const patch = await patchResource({ auth, path: { kind: "plan", id: "by_heyapi" }, body: { name: "Larkspur" } });
  const refused = await listEvents({ auth, query: { limit: 0 } });
  const code: string | undefined = refused.error?.error;
  console.log(JSON.stringify({ ids, kinds, put: put.response?.status, patch: patch.response?.status, resource: put.data?.id, code }));
}

main();
