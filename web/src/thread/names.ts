/** Names under which page and thread keep values in the database, and what both count by. */
export const CARD = "card";
export const KEYS = "keys";
export const MODEL = "model";
/** Activities that a device needs to take part. */
export const FEWEST = 2;
