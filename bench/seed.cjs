// Fills the store of a dynalite with items, straight into its database: over HTTP a million take minutes.
// Usage: node seed.cjs <folder of the store> <definition of the table, as JSON>  < items, as one line of JSON each
"use strict";

const { createInterface } = require("node:readline");
const { promisify } = require("node:util");
const database = require("dynalite/db");

const AT_ONCE = 10_000;

async function main(path, definition) {
  const table = JSON.parse(definition);
  const store = database.create({ path });
  const items = store.getItemDb(table.TableName);
  const write = promisify(items.batch);
  let writes = [];
  for await (const line of createInterface({ input: process.stdin })) {
    const value = JSON.parse(line);
    writes.push({ type: "put", key: database.createKey(value, table), value });
    if (writes.length === AT_ONCE) {
      await write(writes);
      writes = [];
    }
  }
  await write(writes);
  await store.db.close();
}

main(...process.argv.slice(2));
