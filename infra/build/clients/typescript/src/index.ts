/** A client of the API: openapi-fetch, with the types of the API's document and the token of an API key. */

import createFetchClient, { type Client } from "openapi-fetch";
import type { paths } from "./schema.js";

export type { components, operations, paths } from "./schema.js";

/** Return a client of the API at a base URL. */
export function createClient(baseUrl: string, token: string): Client<paths> {
  return createFetchClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
}
