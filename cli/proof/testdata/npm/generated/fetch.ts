// A program that calls the API by openapi-fetch, with the types that
// openapi-typescript generates.
import createClient from "openapi-fetch";
import type { paths } from "./schema";

declare const process: { env: Record<string, string | undefined> };
const demo = JSON.parse(process.env["DEMO"] ?? "{}");

async function main() {
  const client = createClient<paths>({ baseUrl: demo.url });
  const issued = await client.POST("/oauth/v2/token", {
    body: { grant_type: "password", client_id: demo.client_id, client_secret: demo.client_secret, username: demo.username, password: demo.password },
  });
  if (!issued.data) throw new Error(issued.error.error_description);
  const token: string = issued.data.access_token;
  const headers = { Authorization: `Bearer ${token}` };

  const page = await client.GET("/api/events", { headers, params: { query: { type: ["customer.created", "customer.updated"], order: "asc", limit: 3 } } });
  if (!page.data) throw new Error(page.error.error_description);
  const ids: string[] = page.data.data.map((event) => event.id);
  const kinds: string[] = page.data.data.map((event) => event.eventData.object.object);

  const put = await client.PUT("/api/resources/{kind}/{id}", { headers, params: { path: { kind: "plan", id: "by_fetch" } }, body: { name: "Larkspur" } });
  const patch = await client.PATCH("/api/resources/{kind}/{id}", {
    headers: { ...headers, "Content-Type": "application/merge-patch+json" },
    params: { path: { kind: "plan", id: "by_fetch" } },
    body: { name: "Larkspur" },
  });
  const refused = await client.GET("/api/events", { headers, params: { query: { limit: 0 } } });
  const code: string | undefined = refused.error?.error;
  console.log(JSON.stringify({ ids, kinds, put: put.response.status, patch: patch.response.status, resource: put.data?.id, code }));
}

main();
