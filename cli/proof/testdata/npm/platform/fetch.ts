// A program that manages accounts and users by openapi-fetch, with the types that
// openapi-typescript generates.
import createClient from "openapi-fetch";
import type { paths } from "./schema";

declare const process: { env: Record<string, string | undefined> };
const given = JSON.parse(process.env["GIVEN"] ?? "{}");

async function main() {
  const name: string = given.Name;
  const account = "acct_" + name;
  const client = createClient<paths>({ baseUrl: given.URL, headers: { Authorization: `Bearer ${given.Token}` } });
  const put = await client.PUT("/api/platform/accounts/{account}", { params: { path: { account } }, body: { name } });
  if (!put.data) throw new Error(put.error.error_description);
  const made = await client.POST("/api/platform/users", { body: { username: name, account, code: true } });
  if (!made.data) throw new Error(made.error.error_description);
  const again = await client.POST("/api/platform/users", { body: { username: name, account, code: true } });
  const list = await client.GET("/api/platform/users", { params: { query: { account } } });
  if (!list.data) throw new Error(list.error.error_description);
  const names: string[] = list.data.data.map((user) => user.username);
  const hasCode: boolean = made.data.code !== undefined;
  console.log(JSON.stringify({ account: put.data.account, hasCode, same: again.error?.user_id === made.data.user_id, names }));
}

main();
