/** Somebody who leaves: answers nothing else to any run, until each run has said what it deleted, or is over. */
import type { Database } from "../browser/database.js";
import { leaveOf, leftOf } from "../device/leaving.js";
import { CallRefused, type FleetCalls } from "../fleet/calls.js";
import { LEAVING, type Leaving } from "./names.js";
import type { Doing, Member } from "./taking-part.js";

/** Looks for messages between two looks for runs that are over: some minutes. */
const LOOKS = 60;

/** What all runs have said, once none is waited for; undefined before. */
export function leftBy({ left, runs = [] }: Leaving): Doing | undefined {
  return left && !runs.length ? { kind: "left", ...left } : undefined;
}

/** The member that a person is who leaves; `does` gets what is done. */
export function leaver(client: string, database: Database, before: Leaving, calls: FleetCalls, does: (doing: Doing) => void): Member {
  let now = before, told = false, looks = 0, nodeId: bigint;
  const keep = (changed: Partial<Leaving>) => database.put(LEAVING, (now = { ...now, ...changed }));
  const isOver = async (run: string): Promise<boolean> => {
    try {
      await calls.call("get-run", { node: { nodeId }, runId: BigInt(run) }, 1);
      return false;
    } catch (error) {
      return error instanceof CallRefused && error.ofEndedRun;
    }
  };
  /** Wait no more for runs that are over: they ask nothing. */
  const lookRound = async () => {
    const runs: string[] = [];
    for (const run of now.runs ?? []) if (!(await isOver(run))) runs.push(run);
    if (runs.length < (now.runs?.length ?? 0)) await keep({ runs });
  };
  const stands = (): Doing => leftBy(now) ?? { kind: "leaving", said: now.said };
  return {
    before: before.node,
    active: async (node) => {
      nodeId = node;
      await keep({ node });
    },
    answer: async ({ run, content }) => {
      const left = leftOf(content, client);
      if (left) {
        const all = (key: "deleted" | "remains") => [...new Set([...(now.left?.[key] ?? []), ...left[key]])];
        await keep({ left: { deleted: all("deleted"), remains: all("remains") }, runs: (now.runs ?? []).filter((one) => one !== run) });
      }
      told = true;
      return leaveOf(client);
    },
    answered: async () => {
      if (told && !now.said) await keep({ said: true });
      does(stands());
    },
    stays: async () => {
      if (now.runs?.length && looks++ % LOOKS === 0) await lookRound();
      const left = leftBy(now);
      if (left) does(left);
      return !left;
    },
    waits: () => ({ kind: "leaving", said: now.said }),
  };
}
