/** Posts over HTTP or HTTPS, with connections that stay open and a CA of one's own. */
import { Agent as PlainAgent, request as plainRequest } from "node:http";
import { Agent, request } from "node:https";
import type { Transport } from "../fleet/calls.js";

/**
 * A transport to `HOST:PORT`.
 *
 * @param ca certificates in PEM that are trusted beside no others; undefined: those of the system.
 * @param plain without TLS, for tests.
 */
export function nodeTransport(address: string, ca: string | undefined, plain = false): Transport {
  const agent = plain ? new PlainAgent({ keepAlive: true }) : new Agent({ keepAlive: true, ...(ca !== undefined && { ca }) });
  const base = `${plain ? "http" : "https"}://${address}`;
  return (path, headers, body, signal) =>
    new Promise((resolve, reject) => {
      const sent = (plain ? plainRequest : request)(base + path, { method: "POST", agent, headers: { ...headers, "content-length": body.length }, signal }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("error", reject);
        answer.on("end", () => {
          resolve({ status: answer.statusCode ?? 0, body: new Uint8Array(Buffer.concat(chunks)), at: Date.parse(answer.headers.date ?? "") });
        });
      });
      sent.on("error", reject);
      sent.end(body);
    });
}
