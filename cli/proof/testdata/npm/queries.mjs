// The same filters, as programs for Node spell them: each is sent as its library
// writes it, and told with what came back.
import axios from "axios";
import { readFileSync } from "node:fs";
import querystring from "node:querystring";
import qs from "qs";
import queryString from "query-string";

const { url, token, since } = JSON.parse(readFileSync(0, "utf8"));
const types = ["customer.created", "customer.updated"];
const flat = { type: types, limit: 7 };
const nested = { ...flat, createdAt: { gte: since } };
const bracketed = { ...flat, "createdAt[gte]": since };

// What each library does by itself, without and with the options that it has
// for lists.
const spellings = {
  "qs_by_default": () => qs.stringify(nested),
  "qs_indices": () => qs.stringify(nested, { arrayFormat: "indices", encode: false }),
  "qs_brackets": () => qs.stringify(nested, { arrayFormat: "brackets" }),
  "qs_repeat": () => qs.stringify(nested, { arrayFormat: "repeat" }),
  "qs_comma": () => qs.stringify(nested, { arrayFormat: "comma" }),
  "qs_comma_encodeValuesOnly": () => qs.stringify(nested, { arrayFormat: "comma", encodeValuesOnly: true }),
  "query-string_by_default": () => queryString.stringify(bracketed),
  "query-string_bracket": () => queryString.stringify(bracketed, { arrayFormat: "bracket" }),
  "query-string_index": () => queryString.stringify(bracketed, { arrayFormat: "index" }),
  "query-string_comma": () => queryString.stringify(bracketed, { arrayFormat: "comma" }),
  "query-string_separator": () => queryString.stringify(bracketed, { arrayFormat: "separator" }),
  "query-string_bracket-separator": () => queryString.stringify(bracketed, { arrayFormat: "bracket-separator" }),
  "querystring_of_node": () => querystring.stringify(bracketed),
  "URLSearchParams_of_an_object": () => new URLSearchParams(bracketed).toString(),
  "URLSearchParams_of_pairs": () => new URLSearchParams([["type[]", types[0]], ["type[]", types[1]], ["limit", 7], ["createdAt[gte]", since]]).toString(),
  // Slips of these libraries' users, which drop or garble a filter.
  "slip_URLSearchParams_of_a_nested_object": () => new URLSearchParams(nested).toString(),
  "slip_querystring_of_a_nested_object": () => querystring.stringify(nested),
  "slip_qs_of_null": () => qs.stringify({ type: null }),
  "slip_querystring_of_null": () => querystring.stringify({ createdAt: null }),
  "slip_qs_of_milliseconds": () => qs.stringify({ createdAt: { gte: since * 1000 } }),
  "slip_qs_of_a_date": () => qs.stringify({ createdAt: { gte: new Date(since * 1000) } }),
  "slip_qs_with_dots": () => qs.stringify(nested, { allowDots: true }),
};

// axios spells parameters itself.
const axiosWays = {
  "axios_by_default": {},
  "axios_indexes_null": { indexes: null },
  "axios_indexes_false": { indexes: false },
  "axios_indexes_true": { indexes: true },
};

const headers = { authorization: `Bearer ${token}` };
const tell = (name, query, status, body) => console.log(JSON.stringify({ name, query, status, body }));
for (const [name, spell] of Object.entries(spellings)) {
  const query = spell();
  const answer = await fetch(`${url}/api/events?${query}`, { headers });
  tell(name, query, answer.status, await answer.json());
}
for (const [name, paramsSerializer] of Object.entries(axiosWays)) {
  const answer = await axios.get(`${url}/api/events`, { headers, params: nested, paramsSerializer, validateStatus: () => true });
  tell(name, answer.request.path, answer.status, answer.data);
}
