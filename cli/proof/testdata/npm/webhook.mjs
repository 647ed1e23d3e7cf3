// Verifies one webhook that arrived, given as JSON on standard input, with the library of
// Standard Webhooks.
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";

const { secret, headers, body } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(new Webhook(secret).verify(body, headers)));
