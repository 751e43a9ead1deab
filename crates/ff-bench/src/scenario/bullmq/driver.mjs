// Drives BullMQ for `ff-bench bullmq`: one command a line on standard input, one answer a line.
//   fill COUNT      puts so many jobs into the queue
//   drain COUNT     works them off, `concurrency` at a time; answers the milliseconds it took
//   together COUNT  adds jobs, `concurrency` at a time, while they are worked off; the same answer

import { createInterface } from 'node:readline';
import { Queue, Worker } from 'bullmq';

const [port, workers, bytes] = process.argv.slice(2).map(Number);
const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null };
const queue = new Queue('bench', { connection });
// What JSON puts around it is part of the payload.
const data = { p: 'p'.repeat(Math.max(0, bytes - '{"p":""}'.length)) };
const BULK = 1000;

async function fill(count) {
  for (let added = 0; added < count; added += BULK) {
    const size = Math.min(BULK, count - added);
    await queue.addBulk(Array.from({ length: size }, () => ({ name: 'bench', data })));
  }
}

// A worker that is connected and waits to be told to begin; `done` is kept after so many jobs.
async function worker(count) {
  const options = { connection, concurrency: workers, autorun: false };
  const made = new Worker('bench', async () => 'r'.repeat(14), options);
  await made.waitUntilReady();
  let left = count;
  const done = new Promise((resolve, reject) => {
    made.on('completed', () => { left -= 1; if (left === 0) resolve(); });
    made.on('failed', (_, error) => reject(error));
    made.on('error', reject);
  });
  return { made, done };
}

async function timed(count, during) {
  const { made, done } = await worker(count);
  const begun = performance.now();
  const running = made.run();
  await Promise.all([during(), done]);
  const ms = performance.now() - begun;
  await made.close();
  await running;
  return ms;
}

async function add(count) {
  let begun = 0;
  const submitter = async () => {
    while (begun < count) {
      begun += 1;
      await queue.add('bench', data);
    }
  };
  await Promise.all(Array.from({ length: workers }, submitter));
}

const commands = {
  fill,
  drain: (count) => timed(count, async () => {}),
  together: (count) => timed(count, () => add(count)),
};

await queue.waitUntilReady();
console.log('ready');
for await (const line of createInterface({ input: process.stdin })) {
  const [name, count] = line.split(' ');
  const ms = await commands[name](Number(count));
  console.log(ms ?? 0);
}
await queue.close();
