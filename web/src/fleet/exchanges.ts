/** Exchanges of one node with its SuperLink: messages in, answers out. */
import { type Content } from "../values.js";
import { CallRefused, type FleetCalls, pause } from "./calls.js";
import type { Metadata, ObjectTree } from "./messages.js";
import { contentOf, idsOf, messageObjects } from "./objects.js";

/** Seconds from one heartbeat to the next that a node promises; twice as long it may be silent. */
export const HEARTBEAT = 30;
/** Objects of a message at most, and bytes of all. */
const MOST_OBJECTS = 256;
const MOST_BYTES = 2 ** 30;
/** Tries to pull an object that the server has not yet, and seconds between them. */
const PULLS = 20;
const PULL_PAUSE = 0.5;
/** Flower's code of an error that an app raised. */
const APP_FAILED = 2n;

/** A message from the server. */
export interface Question {
  readonly metadata: Metadata;
  /** Its records; an error where its objects are not what their ids say. */
  readonly content: Content | Error;
}

/** A node that is active at its SuperLink. */
export class Exchanges {
  private constructor(
    private readonly calls: FleetCalls,
    /** By which the SuperLink knows it. */
    readonly nodeId: bigint,
  ) {}

  /**
   * The node, active at its SuperLink.
   *
   * @param register whether it registers itself, where nobody else registers keys.
   * @param before its id when it was active last, perhaps in a process that died; it ends that.
   */
  static async begin(calls: FleetCalls, register: boolean, before?: bigint): Promise<Exchanges> {
    const { publicKey } = calls;
    if (register) await calls.call("register-node", { publicKey });
    if (before !== undefined) await new Exchanges(calls, before).end();
    const request = { publicKey, heartbeatInterval: HEARTBEAT };
    const { nodeId } = await calls.call("activate-node", request);
    return new Exchanges(calls, nodeId);
  }

  /** Take leave; a server that does not hear it notices silence. */
  async end(): Promise<void> {
    const { nodeId } = this;
    await this.calls.last.call("deactivate-node", { nodeId }, 1).catch(() => undefined);
  }

  private get node() {
    return { nodeId: this.nodeId };
  }

  /** Say that the node is there. */
  async beat(): Promise<boolean> {
    const request = { node: this.node, heartbeatInterval: HEARTBEAT };
    const answer = await this.calls.call("send-node-heartbeat", request, 1);
    return answer.success;
  }

  /** The next message; undefined: there is none, or its run has ended meanwhile. */
  async receive(): Promise<Question | undefined> {
    const { node } = this;
    const answer = await this.calls.call("pull-messages", { node });
    const message = answer.messagesList.at(0);
    const tree = answer.messageObjectTrees.at(0);
    if (!message?.metadata || !tree) return undefined;
    const { runId } = message.metadata;
    const confirm = { node, runId, messageObjectId: tree.objectId };
    const content = await this.pulled(runId, tree).catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
    if (content instanceof CallRefused && content.ofEndedRun) return undefined;
    const confirmed = await whileItRuns(this.calls.call("confirm-message-received", confirm));
    return confirmed ? { metadata: message.metadata, content } : undefined;
  }

  private async pulled(runId: bigint, tree: ObjectTree): Promise<Content> {
    const ids = idsOf(tree);
    if (ids.length > MOST_OBJECTS) throw new Error(`message ${tree.objectId}: got ${ids.length} objects, expected ${MOST_OBJECTS} at most`);
    const objects = new Map<string, Uint8Array>();
    let room = MOST_BYTES;
    for (const id of ids) {
      const bytes = await this.pull(runId, id);
      room -= bytes.length;
      if (room < 0) throw new Error(`message ${tree.objectId}: got more than ${MOST_BYTES} bytes, expected fewer`);
      objects.set(id, bytes);
    }
    return contentOf(tree.objectId, objects);
  }

  private async pull(runId: bigint, objectId: string): Promise<Uint8Array> {
    for (let attempt = 0; attempt < PULLS; attempt++) {
      const request = { node: this.node, runId, objectId };
      const answer = await this.calls.call("pull-object", request);
      if (!answer.objectFound) break;
      if (answer.objectAvailable) return answer.objectContent;
      await pause(PULL_PAUSE, this.calls.signal);
    }
    throw new Error(`object ${objectId}: the server does not have it`);
  }

  /** Send an answer's records, or an error; false: the run has ended meanwhile. */
  async reply(question: Question, answer: Content | Error): Promise<boolean> {
    return whileItRuns(this.pushed(question, answer));
  }

  private async pushed(question: Question, answer: Content | Error): Promise<void> {
    const asked = question.metadata;
    const { now } = this.calls;
    const metadata = {
      runId: asked.runId,
      srcNodeId: asked.dstNodeId,
      dstNodeId: asked.srcNodeId,
      replyToMessageId: asked.messageId,
      groupId: asked.groupId,
      messageType: asked.messageType,
      createdAt: now,
      // A reply lives no longer than its question.
      ttl: Math.max(asked.ttl - (now - asked.createdAt), 1),
      ...(asked.dstTaskId !== undefined && { srcTaskId: asked.dstTaskId }),
      ...(asked.srcTaskId !== undefined && { dstTaskId: asked.srcTaskId }),
    };
    const failed = answer instanceof Error;
    const error = failed ? { error: { code: APP_FAILED, reason: `${answer.name}: ${answer.message}` } } : {};
    const { tree, objects } = messageObjects({ metadata, ...error }, failed ? undefined : answer);
    const message = { ...(failed ? error : { content: {} }), metadata: { ...metadata, messageId: tree.objectId } };
    const runtime = Math.max(now - asked.createdAt, 0);
    const request = { node: this.node, messagesList: [message], messageObjectTrees: [tree], clientappRuntimeList: [runtime] };
    const pushed = await this.calls.call("push-messages", request);
    const { sessionId } = pushed;
    for (const [objectId, objectContent] of objects) {
      if (!pushed.objectsToPush.includes(objectId)) continue;
      const { runId } = asked;
      await this.calls.call("push-object", { node: this.node, runId, objectId, objectContent, sessionId });
    }
  }
}

/** Ends with what is done; false: the run that it is for has ended. */
async function whileItRuns(done: Promise<unknown>): Promise<boolean> {
  return done.then(
    () => true,
    (error: unknown) => {
      if (error instanceof CallRefused && error.ofEndedRun) return false;
      throw error;
    },
  );
}
