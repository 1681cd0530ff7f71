// What numbers, times and reasons are called. Pure: no page, no network.

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const SHORT = 8;

// Kept, because making one costs more than everything else about a line of the table.
const NUMBERS = new Intl.NumberFormat("en");
const MOMENTS = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** `1,000`. */
export function figure(number) {
  return NUMBERS.format(number);
}

/** A moment as the reader's own calendar and clock have it. */
export function exactly(milliseconds) {
  return MOMENTS.format(milliseconds);
}

/** `1 gateway`, `3 gateways`, `1,000 gateways`. */
export function counted(number, one, many = `${one}s`) {
  return `${figure(number)} ${number === 1 ? one : many}`;
}

export function shortCommit(commit) {
  return commit.slice(0, SHORT);
}

/** Digests are for machines: what people compare are the first digits. */
export function withoutDigests(text) {
  return text.replace(/\b[0-9a-f]{64}\b/g, (digest) => digest.slice(0, 12));
}

/** Accounts of programs have long names that all begin alike: `system:serviceaccount:plant:ann` is `ann`. */
export function accountName(user) {
  return user.match(/^system:serviceaccount:[^:]+:(.+)$/)?.[1] ?? user;
}

/** How long something takes or has taken, in one unit: a glance wants no more. */
export function span(seconds) {
  const past = Math.max(0, Math.round(seconds));
  if (past < MINUTE) return `${past} s`;
  if (past < HOUR) return `${Math.floor(past / MINUTE)} min`;
  if (past < 2 * DAY) return `${Math.floor(past / HOUR)} h`;
  return `${Math.floor(past / DAY)} days`;
}

/** The age of a moment. Below a minute it does not count seconds: a figure that runs draws the eye for nothing. */
export function ago(seconds) {
  return seconds < MINUTE ? "just now" : `${span(seconds)} ago`;
}

export function until(seconds) {
  return seconds <= 0 ? "now" : `in ${span(seconds)}`;
}

/** `WaitingForWindow` reads `Waiting for window`; words in capitals stay. */
export function spelled(reason) {
  const words = reason.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+/g);
  if (!words) return reason;
  const told = words.map((word) => (word === word.toUpperCase() && word.length > 1 ? word : word.toLowerCase()));
  return told.join(" ").replace(/^./, (first) => first.toUpperCase());
}

/** `12 added, 3 changed, 1 deleted`, without what is none. */
export function changesOf({ added, modified, deleted }) {
  const parts = [[added, "added"], [modified, "changed"], [deleted, "deleted"]];
  const told = parts.filter(([number]) => number).map(([number, word]) => `${figure(number)} ${word}`);
  return told.length ? told.join(", ") : "no files";
}

export function size(bytes) {
  if (!bytes) return "";
  const units = ["B", "KB", "MB", "GB", "TB"];
  const unit = Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
  const number = bytes / 1000 ** unit;
  return `${number.toFixed(number < 10 && unit ? 1 : 0)} ${units[unit]}`;
}

/** `anna`, `anna and ben`, `anna, ben and 3 more`. */
export function listed(names, most = 3) {
  const shown = names.length > most ? [...names.slice(0, most - 1), `${names.length - most + 1} more`] : names;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}
