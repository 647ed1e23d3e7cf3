import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { useTollhouse } from "./tollhouse";

const tollhouse = useTollhouse();

async function signIn(): Promise<number> {
  const response = await fetch(`${tollhouse.url}/oauth/v2/token`, {
    method: "POST",
    body: new URLSearchParams({
      grant_type: "password",
      client_id: tollhouse.clientId,
      client_secret: tollhouse.clientSecret,
      username: tollhouse.username,
      password: tollhouse.password,
    }),
  });
  return response.status;
}

test("sign-in after a fault", async () => {
  const rule = await tollhouse.fault({ match: { path: "/oauth/v2/token" }, count: 1, do: { status: 503 } });
  expect(await signIn()).toBe(503);
  expect(await signIn()).toBe(200);
  const asked = await tollhouse.requests({ path: "/oauth/v2/token" });
  expect(asked.map((entry) => entry.status)).toEqual([503, 200]);
  expect(asked[0]?.fault).toBe(rule);
});

test("the next test begins anew", async () => {
  expect(await tollhouse.requests()).toEqual([]);
  expect(await signIn()).toBe(200);
});

test("snapshot and restore", async () => {
  await tollhouse.snapshot("empty");
  const made = await tollhouse.events({ type: "customer.created", resource: "cus_1", eventData: { object: { displayName: "Larkspur" } } });
  expect(made[0]?.type).toBe("customer.created");
  const { events } = await tollhouse.call("GET", "/_dev/state");
  await tollhouse.restore("empty");
  expect((await tollhouse.call("GET", "/_dev/state")).events).toBe(events - 1);
});

test.runIf(process.env.HANG)("hangs until the runner is killed", () => {
  writeFileSync(process.env.HANG!, "");
  return new Promise(() => {});
}, 3_600_000);
