// Asks a live server what calls.json lists through the client that was generated beside this file,
// whose schemas check every answer; what begins with $ is taken from an answer that was kept.
import { readFileSync } from 'node:fs';

import { client } from './ts/client.gen.ts';
import * as sdk from './ts/sdk.gen.ts';

type Call = { op: string; path?: object; query?: object; body?: object; keep?: string };
const { calls, refused } = JSON.parse(readFileSync('calls.json', 'utf8')) as Record<string, Call[]>;
const kept: Record<string, any> = {};
client.setConfig({ baseUrl: process.env.MNEMOLOG_URL, auth: () => process.env.MNEMOLOG_TOKEN });

function resolve(value: any): any {
  if (value && typeof value === 'object' && !Array.isArray(value))
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, resolve(inner)]));
  if (typeof value !== 'string' || !value.startsWith('$')) return value;
  const [name, ...path] = value.slice(1).split('.');
  return path.reduce((found, part) => found[part], kept[name]);
}

async function ask(call: Call, throwOnError: boolean): Promise<any> {
  const operation = (sdk as Record<string, any>)[call.op];
  const { path, query, body } = call;
  return operation({ ...resolve({ path, query, body }), throwOnError });
}

for (const call of calls) {
  const { data } = await ask(call, true).catch((error) => {
    console.error(JSON.stringify(call), error);
    process.exit(1);
  });
  if (call.keep) kept[call.keep] = data;
}
let problems = 0;
// the request's own schema may refuse it before the server does
for (const call of refused) if ((await ask(call, false).catch((error) => ({ error }))).error) problems += 1;
console.log(`${calls.length} taken, ${problems} refused`);
