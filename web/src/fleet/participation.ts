/** A node's life: it looks for messages, answers them one after another, and says that it is there. */
import type { Content } from "../values.js";
import { CallRefused, type FleetCalls, pause } from "./calls.js";
import { Exchanges, HEARTBEAT } from "./exchanges.js";
import type { Metadata } from "./messages.js";

/** Why a node takes leave without an answer to a message: who can give one comes later, and is asked again. */
export class Unanswered extends Error {}

/** What a node does beside answering. */
export interface Participation {
  /** Whether it registers its own key, where nobody else registers keys. */
  readonly register: boolean;
  /** Seconds from one look for messages to the next while there are none. */
  readonly look: number;
  /** The node's id in its last life; undefined: unknown. */
  readonly before: bigint | undefined;
  /** Gets the node's id once it is active, to remember it. */
  readonly active: (nodeId: bigint) => Promise<void>;
  /** Called once the server has got an answer. */
  readonly answered?: () => Promise<void>;
  /** Whether it looks for one more message; left out: always. */
  readonly stays?: () => Promise<boolean>;
  /** Gets a line on each exchange. */
  readonly log: (line: string) => void;
}

/** Seconds between tries to become active: a server notices that a node died after twice its heartbeat. */
const ACTIVATION = 5;
const ACTIVATIONS = 24;

/**
 * Take part until the calls' signal ends it, or `stays` does.
 *
 * @param answer makes a message's answer; what it throws is answered as an error, but an {@link Unanswered} ends it.
 * @throws CallRefused where the server does not let the node in.
 */
export async function takePart(calls: FleetCalls, answer: (metadata: Metadata, content: Content) => Promise<Content>, how: Participation): Promise<void> {
  const node = await activated(calls, how);
  await how.active(node.nodeId);
  how.log(`node ${node.nodeId} is active`);
  const beating = setInterval(() => {
    node.beat().catch((error: unknown) => {
      how.log(`heartbeat: ${String(error)}`);
    });
  }, 800 * HEARTBEAT);
  try {
    while (!calls.signal?.aborted && ((await how.stays?.()) ?? true)) {
      const question = await node.receive();
      if (!question) {
        await pause(how.look, calls.signal);
        continue;
      }
      const { messageType, groupId } = question.metadata;
      how.log(`${messageType}, round ${groupId}`);
      const { metadata, content } = question;
      const made = content instanceof Error ? content : await Promise.resolve().then(() => answer(metadata, content)).catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
      if (made instanceof Error) how.log(`${messageType}, round ${groupId}: ${made.message}`);
      if (made instanceof Unanswered) break;
      if (await node.reply(question, made)) await how.answered?.();
    }
  } catch (error) {
    if (!calls.signal?.aborted) throw error;
  } finally {
    clearInterval(beating);
    await node.end();
  }
}

async function activated(calls: FleetCalls, how: Participation): Promise<Exchanges> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await Exchanges.begin(calls, how.register, how.before);
    } catch (error) {
      if (attempt === ACTIVATIONS || !(error instanceof CallRefused) || error.status === 401) throw error;
      how.log(`${error.message}; trying again`);
      await pause(ACTIVATION, calls.signal);
    }
  }
}
