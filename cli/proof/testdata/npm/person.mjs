// The line between a driver and the test that started it: one JSON value a
// line, what the driver did on standard output, what a person did in the
// browser on standard input.
import { webcrypto } from "node:crypto";
import { createInterface } from "node:readline";

globalThis.crypto ??= webcrypto; // Node 18 keeps it behind a flag

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const hear = async () => JSON.parse((await lines.next()).value);
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

// The first line that is heard: where the server is, and who the client is.
export const settings = await hear();

// send has the person open an address and answer "allow" or "deny", and returns
// the address at which the browser arrives.
export async function send(decision, url) {
  say({ ask: decision, url });
  return (await hear()).arrived;
}

// step tells how an act went, and ends the driver when it failed.
export async function step(name, act) {
  try {
    const result = await act();
    say({ step: name, result });
    return result;
  } catch (error) {
    say({ step: name, error: `${error.name}: ${error.message} ${JSON.stringify(error.cause ?? null)}` });
    process.exit(1);
  }
}

// refusal tells which error of OAuth the library makes of a refused act: what
// codeOf finds in what it threw.
export async function refusal(name, codeOf, act) {
  await step(name, async () => {
    try {
      await act();
    } catch (error) {
      return (await codeOf(error)) ?? `no code in ${error.name}: ${error.message}`;
    }
    return "was not refused";
  });
}

// finish lets the driver end: its input is still open.
export const finish = () => process.stdin.destroy();
