// The status of destinations, and the sentence about all of them. Pure, except that it depends on the clock.
import { STANDINGS } from "./gateway_status.js";
import { sentenceOf } from "./reason_text.js";
import { secondsSince } from "../page/clock.js";
import { counted, figure, listed } from "./format.js";

const LATE = 60;

/** The worst first; the text is for several destinations with this status but different words. */
const ALL = [
  ["failed", "failed"], ["drifted", "incomplete or behind"], ["waiting", "waiting"], ["syncing", "being written"],
  ["step", "up to date"],
];
/** The form of a word in the middle of a sentence. */
const WITHIN = { "Nothing yet": "without a rule", Writing: "being written", Ready: "up to date" };
const RANK = new Map(ALL.map(([standing], rank) => [standing, rank]));

/** [status, word, sentence, consequence] of a destination. */
export function standing(destination) {
  const { pending, pendingSince, ready, rules, troubles } = destination;
  const why = destination.message || sentenceOf(destination.reason);
  if (destination.suspended) return ["waiting", "Suspended", "spec.suspend is true.", SUSPENDED];
  if (destination.held) return ["waiting", "Deletions held", HELD, ""];
  if (ready === "False") return ["failed", "Failed", why, destination.stalled ? STALLED : AGAIN];
  if (troubles.length) return ["drifted", "Incomplete", "Some selected objects are not written to git.", ""];
  const late = pendingSince && secondsSince(pendingSince) > LATE;
  if (pending && late) return ["drifted", "Behind", "Changes have been waiting to be pushed to git for too long.", ""];
  if (pending) return ["syncing", "Writing", "Changes are being written to git.", ""];
  if (ready !== "True") return ["waiting", "Waiting", why, ""];
  if (rules === 0) return ["waiting", "Nothing yet", "No rule writes to this destination yet.", RULES];
  if (!destination.commit) return ["step", "Ready", "The repository is writable; nothing to write so far.", ""];
  return ["step", "Up to date", "All observed changes are in git.", ""];
}

const HELD = "Writes continue. Deletions beyond the budget wait for approval.";
const AGAIN = "Stoker retries automatically and then writes all changes made meanwhile.";
const STALLED = "Stoker cannot recover from this automatically: fix the cause.";
const SUSPENDED = "Nothing is written until spec.suspend is removed from the GitDestination or from its GitRepoConfig.";
const RULES = "A WatchRule or ClusterWatchRule that names this destination selects what is written.";

export function rank(destination) {
  return RANK.get(standing(destination)[0]);
}

/** The number of destinations by status. */
export function counts(destinations) {
  const sum = { all: 0, counts: Object.fromEntries(STANDINGS.map(({ key }) => [key, 0])), words: new Map() };
  for (const one of destinations) {
    const [key, word] = standing(one);
    sum.all += 1;
    sum.counts[key] += 1;
    sum.words.set(key, (sum.words.get(key) ?? new Set()).add(WITHIN[word] ?? word.toLowerCase()));
  }
  return sum;
}

/** The word that all destinations with this status share, or else the general text. */
function called(sum, [key, words]) {
  const own = [...sum.words.get(key)];
  return own.length === 1 ? own[0] : words;
}

/** The worst status. */
export function verdict(sum) {
  return ALL.find(([key]) => sum.counts[key])?.[0] ?? "waiting";
}

/** The headline, short enough to read from across a room. */
export function sentence(sum) {
  const worst = ALL.find(([each]) => sum.counts[each]);
  const [key] = worst;
  if (key !== "step") return `${counted(sum.counts[key], "destination")} ${called(sum, worst)}`;
  return sum.all === 1 ? "The destination is up to date" : `All ${figure(sum.all)} destinations are up to date`;
}

/** The counts by status, if the headline does not already cover all destinations. */
export function more(sum) {
  const told = ALL.filter(([key]) => sum.counts[key]);
  if (told.length < 2) return "";
  return listed(told.map((one) => `${figure(sum.counts[one[0]])} ${called(sum, one)}`), ALL.length);
}
