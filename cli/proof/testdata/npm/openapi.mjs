// The document on standard input, judged by the schema of its OpenAPI version.
import { Validator } from "@seriousme/openapi-schema-validator";
import { readFileSync } from "node:fs";

const document = JSON.parse(readFileSync(0, "utf8"));
const validator = new Validator();
const { valid, errors } = await validator.validate(document);
console.log(JSON.stringify({ valid, version: validator.version, errors }));
