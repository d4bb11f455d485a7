/** A client of the API: openapi-fetch with the document's types, the token of an API key and the version header. */

import createFetchClient, { type Client } from "openapi-fetch";
import type { paths as Documented } from "./schema.js";

export type { components, operations } from "./schema.js";

/** An operation with optional headers: the client sends the version automatically. */
type Versioned<Operation> = Operation extends { parameters: { header: infer Header } }
  ? Omit<Operation, "parameters"> & { parameters: Omit<Operation["parameters"], "header"> & { header?: Partial<Header> } }
  : Operation;

export type paths = { [Path in keyof Documented]: { [Method in keyof Documented[Path]]: Versioned<Documented[Path][Method]> } };

/** Return a client of the API at a base URL. */
export function createClient(baseUrl: string, token: string): Client<paths> {
  return createFetchClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}`, "Service-Version": "2" } });
}
