/** Calls what a line of JSON names by the generated TypeScript client, and answers in a line of JSON. */

import { createInterface } from "node:readline";
import { createClient, type paths } from "tunnel-edge-client";

interface Asked {
  method: "get" | "post" | "patch" | "put" | "delete";
  template: keyof paths;
  path: Record<string, string>;
  query: Record<string, unknown>;
  body: unknown;
}

const [baseUrl, token] = process.argv.slice(2);
const client = createClient(baseUrl, token);

async function call({ method, template, path, query, body }: Asked) {
  const params = { path, query };
  const request: CallableFunction = client.request; // what it is called with is known only now
  const { data, error, response } = await request(method, template, { params, body: body ?? undefined });
  return { status: response.status, body: data ?? error ?? null };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await call(JSON.parse(line))));
}
