/** Taking part without a page: what a service worker does when the browser wakes it. */
import { Database } from "../browser/database.js";
import { pageKernels } from "../browser/kernels.js";
import { presentHere, WITHOUT_PAGE } from "../browser/present.js";
import { alone } from "../browser/store.js";
import { cardOf } from "../data/card.js";
import { ALWAYS, type Policy, unmet } from "../device/policy.js";
import type { Settings } from "../device/settings.js";
import type { Joined } from "../fleet/join.js";
import { Unanswered } from "../fleet/participation.js";
import { BACKGROUND, CARD, JOINED, PAUSED, POLICY } from "./names.js";
import { isReady, ownData } from "./own-data.js";
import { TakingPart } from "./taking-part.js";
import { hasAgreed, termsOf } from "./terms.js";

/** Seconds in which it looks for messages: browsers end an event after some minutes. */
const AWAKE = 120;
/** Seconds in which a tab that was just closed gives way. */
const CLOSING = 5;

/**
 * Take part for a while, where the person wants that; runs that the person has not agreed to wait for the page.
 *
 * @param lookedAt says whether a person looks at a page, which then takes part in its place.
 * @throws where it could not, so that the browser tries again: a tab takes part, or the server is away.
 */
export async function takePartAwhile(lookedAt: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 1000 * AWAKE;
  const database = await Database.open();
  try {
    await alone(async () => {
      const joined = await database.get<Joined>(JOINED), card = await database.get<string>(CARD);
      const wanted = (await database.get<boolean>(BACKGROUND)) && !(await database.get<boolean>(PAUSED));
      const policy = (await database.get<Policy>(POLICY)) ?? ALWAYS;
      const allowed = async () => unmet(policy, await presentHere(WITHOUT_PAGE)) === undefined;
      if (!joined || card === undefined || !wanted || !(await allowed())) return;
      const data = await ownData(joined.client, cardOf(card), database);
      if (!(await isReady(database, data))) return;
      const demand = async (settings: Settings) => {
        if (!(await hasAgreed(database, termsOf(settings)))) throw new Unanswered("its owner has not agreed to what this run sends, and is asked by the page");
      };
      const stays = async () => performance.now() < end && (await allowed()) && !(await lookedAt());
      const taking = new TakingPart(joined.client, database, await pageKernels(), { demand }, () => undefined);
      await taking.awhile(data.person, stays);
    }, CLOSING);
  } finally {
    database.close();
  }
}
