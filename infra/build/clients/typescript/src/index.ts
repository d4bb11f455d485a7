/** A client of the API: openapi-fetch, with the types of the API's document, the token of an API key and the version. */

import createFetchClient, { type Client } from "openapi-fetch";
import type { paths as Documented } from "./schema.js";

export type { components, operations } from "./schema.js";

/** An operation whose headers may be left out: the client sends the version by itself. */
type Versioned<Operation> = Operation extends { parameters: { header: infer Header } }
  ? Omit<Operation, "parameters"> & { parameters: Omit<Operation["parameters"], "header"> & { header?: Partial<Header> } }
  : Operation;

export type paths = { [Path in keyof Documented]: { [Method in keyof Documented[Path]]: Versioned<Documented[Path][Method]> } };

/** Return a client of the API at a base URL. */
export function createClient(baseUrl: string, token: string): Client<paths> {
  return createFetchClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}`, "Service-Version": "2" } });
}
