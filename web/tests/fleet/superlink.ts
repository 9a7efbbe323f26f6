/** A SuperLink in this process: it has messages for one device, checks its signatures, and fails when told to. */
import { createVerify } from "node:crypto";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { create, type DescMessage, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import * as pb from "../generated/fleet/fleet_pb.js";
import { contentOf, messageObjects, type MessageObjects, objectIdOf } from "../../src/fleet/objects.js";
import type { Content } from "../../src/values.js";

/** By which the device is known. */
export const NODE = 2n ** 63n + 5n;

/** What a device pushed: records, or an error's words. */
export type Pushed = Content | string;

/** The server, its calls in order, and what was pushed. */
export class SuperLink {
  readonly calls: string[] = [];
  readonly pushed: Pushed[] = [];
  /** Answers of this status are given to so many calls of a name, before any other. */
  readonly failures = new Map<string, { status: number; times: number; body?: string }>();
  /** Numbers of runs that are over. */
  readonly over = new Set<bigint>();
  /** How far its clock is ahead of the device's, ms. */
  ahead = 0;
  private readonly waiting: MessageObjects[] = [];
  private readonly objects = new Map<string, Uint8Array>();
  private readonly server: Server;
  private begun = 0;

  constructor() {
    this.server = createServer((request, response) => {
      void body(request).then((bytes) => {
        const { status, answer } = this.answered(request, bytes);
        response.writeHead(status, { date: new Date(Date.now() + this.ahead).toUTCString() }).end(answer);
      });
    });
  }

  /** `HOST:PORT` once it listens. */
  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  /** Have a message for the device; `broken` changes its objects. */
  ask(type: string, group: string, content: Content, broken: (objects: Map<string, Uint8Array>) => void = () => undefined, runId = 7n): void {
    const metadata = { runId, srcNodeId: 1n, dstNodeId: NODE, groupId: group, messageType: type, ttl: 100, createdAt: Date.now() / 1000, srcTaskId: 11n };
    const message = messageObjects({ metadata }, content);
    broken(message.objects);
    this.waiting.push(message);
    for (const [id, bytes] of message.objects) this.objects.set(id, bytes);
  }

  private answered(request: IncomingMessage, bytes: Uint8Array): { status: number; answer: Uint8Array } {
    const name = request.url?.split("/").at(-1) ?? "";
    this.calls.push(name);
    const failure = this.failures.get(name);
    if (failure && failure.times-- > 0) return { status: failure.status, answer: new TextEncoder().encode(failure.body ?? "") };
    if (!signed(request, Date.now() + this.ahead)) return { status: 401, answer: new Uint8Array(0) };
    // The second field of a question for a run is its number, in one byte here.
    if (name === "get-run" && this.over.has(BigInt(bytes[bytes.length - 1]))) return { status: 403, answer: new TextEncoder().encode('{"code":2007}') };
    return { status: 200, answer: this.handle(name, bytes) };
  }

  /** The answer to the body of a call; nobody looks at its signature here. */
  handle(name: string, bytes: Uint8Array): Uint8Array {
    if (name === "activate-node") return answer(pb.ActivateNodeResponseSchema, { nodeId: NODE });
    if (name === "send-node-heartbeat") return answer(pb.SendNodeHeartbeatResponseSchema, { success: true });
    if (name === "pull-messages") return this.pull();
    if (name === "pull-object") {
      const found = this.objects.get(read(pb.PullObjectRequestSchema, bytes).objectId);
      // A server has some objects later than their ids.
      const objectAvailable = found !== undefined && this.begun++ > 0;
      return answer(pb.PullObjectResponseSchema, { objectFound: found !== undefined, objectAvailable, objectContent: objectAvailable ? found : new Uint8Array(0) });
    }
    if (name === "push-messages") return this.push(read(pb.PushMessagesRequestSchema, bytes));
    if (name === "push-object") {
      const { objectId, objectContent, sessionId } = read(pb.PushObjectRequestSchema, bytes);
      this.objects.set(objectId, objectContent);
      if (sessionId === "session" && this.missing().length === 0 && this.id) this.pushed.push(contentOf(this.id, this.objects));
      return answer(pb.PushObjectResponseSchema, { stored: objectIdOf(objectContent) === objectId });
    }
    return new Uint8Array(0);
  }

  private pull(): Uint8Array {
    const next = this.waiting.shift();
    if (!next) return answer(pb.PullMessagesResponseSchema, {});
    const message = fromBinary(pb.MessageSchema, bodyOf(next.objects.get(next.tree.objectId) ?? new Uint8Array(0)));
    const metadata = { ...message.metadata!, messageId: next.tree.objectId };
    return answer(pb.PullMessagesResponseSchema, { messagesList: [{ metadata }], messageObjectTrees: [next.tree] });
  }

  private id: string | undefined;
  private ids: string[] = [];

  private missing(): string[] {
    return this.ids.filter((id) => !this.objects.has(id));
  }

  private push({ messagesList: [message], messageObjectTrees: [tree] }: pb.PushMessagesRequest): Uint8Array {
    // As a SuperLink does: what has neither is none.
    if (!message.content && !message.error) throw new Error("a message without content and error");
    if (message.error) this.pushed.push(message.error.reason);
    this.id = message.error ? undefined : message.metadata?.messageId;
    const all = (one: pb.ObjectTree): string[] => [one.objectId, ...one.children.flatMap(all)];
    this.ids = all(tree);
    return answer(pb.PushMessagesResponseSchema, { objectsToPush: this.missing(), sessionId: "session" });
  }
}

function bodyOf(object: Uint8Array): Uint8Array {
  return object.subarray(object.indexOf(0) + 1);
}

function answer<T extends DescMessage>(schema: T, value: MessageInitShape<T>): Uint8Array {
  return toBinary(schema, create(schema, value));
}

function read<T extends DescMessage>(schema: T, bytes: Uint8Array): MessageShape<T> {
  return fromBinary(schema, bytes);
}

/** Whether a request's signature is that of its timestamp by the key that it shows, and of `now` as Flower forgives it. */
function signed({ headers }: IncomingMessage, now: number): boolean {
  const [key, timestamp, signature] = ["flwr-public-key", "flwr-timestamp", "flwr-signature"].map((name) => String(headers[name]));
  const age = now - Date.parse(timestamp);
  const verified = createVerify("sha256").update(timestamp).verify(Buffer.from(key, "base64").toString(), Buffer.from(signature, "base64"));
  return verified && age > -5000 && age < 305_000 && timestamp.endsWith("+00:00");
}

async function body(request: IncomingMessage): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return new Uint8Array(Buffer.concat(chunks));
}
