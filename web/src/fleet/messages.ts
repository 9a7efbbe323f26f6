/** Flower's messages between a node and its SuperLink, as far as a device needs them: `proto/flower/fleet.proto`. */
import { bool, bytes, double, type InitOf, message, type MessageOf, messages, one, perhaps, type Schema, schema, several, sint64, string, uint64 } from "../wire/protobuf.js";

const NODE = schema({ nodeId: one(1, uint64) });
const NOTHING = schema({});

const METADATA = schema({
  runId: one(1, uint64),
  messageId: one(2, string),
  srcNodeId: one(3, uint64),
  dstNodeId: one(4, uint64),
  replyToMessageId: one(5, string),
  groupId: one(6, string),
  ttl: one(7, double),
  messageType: one(8, string),
  createdAt: one(9, double),
  srcTaskId: perhaps(10, uint64),
  dstTaskId: perhaps(11, uint64),
});
const ERROR = schema({ code: one(1, sint64), reason: one(2, string) });
export const MESSAGE = schema({ metadata: message(1, () => METADATA), content: message(2, () => NOTHING), error: message(3, () => ERROR) });

/** A tree of objects by their ids. */
export interface ObjectTree {
  readonly objectId: string;
  readonly children: ObjectTree[];
}
export const OBJECT_TREE = schema({ objectId: one(1, string), children: messages(2, (): Schema<ObjectTree> => OBJECT_TREE) }) as Schema<ObjectTree>;

/** Of each call what is asked and what is answered. */
export const CALLS = {
  "register-node": [schema({ publicKey: one(1, bytes) }), NODE],
  "activate-node": [schema({ publicKey: one(1, bytes), heartbeatInterval: one(2, double) }), NODE],
  "deactivate-node": [NODE, NOTHING],
  "send-node-heartbeat": [schema({ node: message(1, () => NODE), heartbeatInterval: one(2, double) }), schema({ success: one(1, bool) })],
  "pull-messages": [schema({ node: message(1, () => NODE) }), schema({ messagesList: messages(2, () => MESSAGE), messageObjectTrees: messages(3, () => OBJECT_TREE) })],
  "push-messages": [
    schema({ node: message(1, () => NODE), messagesList: messages(2, () => MESSAGE), messageObjectTrees: messages(3, () => OBJECT_TREE), clientappRuntimeList: several(4, double) }),
    schema({ objectsToPush: several(3, string), sessionId: one(4, string) }),
  ],
  "push-object": [
    schema({ node: message(1, () => NODE), runId: one(2, uint64), objectId: one(3, string), objectContent: one(4, bytes), sessionId: one(5, string) }),
    schema({ stored: one(1, bool) }),
  ],
  "pull-object": [
    schema({ node: message(1, () => NODE), runId: one(2, uint64), objectId: one(3, string) }),
    schema({ objectFound: one(1, bool), objectAvailable: one(2, bool), objectContent: one(3, bytes) }),
  ],
  "get-run": [schema({ node: message(1, () => NODE), runId: one(2, uint64) }), NOTHING],
  "confirm-message-received": [schema({ node: message(1, () => NODE), runId: one(2, uint64), messageObjectId: one(3, string) }), NOTHING],
} as const;

/** A call's name. */
export type CallName = keyof typeof CALLS;
/** What is asked in a call, and what is answered. */
export type Request<Name extends CallName> = InitOf<(typeof CALLS)[Name][0]>;
export type Response<Name extends CallName> = MessageOf<(typeof CALLS)[Name][1]>;

export type Metadata = MessageOf<typeof METADATA>;
/** A message but for its content. */
export type Envelope = InitOf<typeof MESSAGE>;

/** A value of a record is in the one of these fields that is there. */
export const RECORD_VALUE = schema({
  double: perhaps(1, double),
  sint64: perhaps(2, sint64),
  uint64: perhaps(3, uint64),
  bool: perhaps(4, bool),
  string: perhaps(5, string),
  bytes: perhaps(6, bytes),
  doubleList: message(21, () => schema({ vals: several(1, double) })),
  sintList: message(22, () => schema({ vals: several(1, sint64) })),
  uintList: message(23, () => schema({ vals: several(1, uint64) })),
  boolList: message(24, () => schema({ vals: several(1, bool) })),
  stringList: message(25, () => schema({ vals: several(1, string) })),
  bytesList: message(26, () => schema({ vals: several(1, bytes) })),
});
export const RECORD = schema({ items: messages(1, () => schema({ key: one(1, string), value: message(2, () => RECORD_VALUE) })) });
