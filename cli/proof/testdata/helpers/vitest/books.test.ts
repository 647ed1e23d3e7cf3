import { expect, test } from "vitest";
import { useTollhouse } from "./tollhouse";

const tollhouse = useTollhouse(["--access-ttl", "1h"]);

test("an expired token is refused", async () => {
  const token = await tollhouse.token({ scope: "events:read" });
  const list = async () => (await fetch(`${tollhouse.url}/api/events`, { headers: { Authorization: `Bearer ${token.access_token}` } })).status;
  expect(await list()).toBe(200);
  await tollhouse.advance("2h");
  expect(await list()).toBe(401);
  const refused = await tollhouse.requests({ status: 401 });
  expect(refused.map((entry) => entry.error)).toEqual(["invalid_token"]);
});
