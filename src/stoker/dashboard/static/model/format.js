// Formats numbers, times and reasons. Pure: no DOM, no network.

const MINUTE = 60, HOUR = 3600, DAY = 86400;
const SHORT = 8;

// Created once, because creating a formatter costs more than the rest of a table row.
const NUMBERS = new Intl.NumberFormat("en");
const MOMENTS = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** `1,000`. */
export function figure(number) {
  return NUMBERS.format(number);
}

/** A time in the reader's own locale and time zone. */
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

/** Shortens digests: people compare only the first digits. */
export function withoutDigests(text) {
  return text.replace(/\b[0-9a-f]{64}\b/g, (digest) => digest.slice(0, 12));
}

/** Shortens the names of service accounts: `system:serviceaccount:plant:ann` becomes `ann`. */
export function accountName(user) {
  return user.match(/^system:serviceaccount:[^:]+:(.+)$/)?.[1] ?? user;
}

/** A duration in a single unit, enough for a glance. */
export function span(seconds) {
  const past = Math.max(0, Math.round(seconds));
  if (past < MINUTE) return `${past} s`;
  if (past < HOUR) return `${Math.floor(past / MINUTE)} min`;
  if (past < 2 * DAY) return `${Math.floor(past / HOUR)} h`;
  return `${Math.floor(past / DAY)} days`;
}

/** The age of a time. Below a minute it shows no seconds, because a running number distracts. */
export function ago(seconds) {
  return seconds < MINUTE ? "just now" : `${span(seconds)} ago`;
}

export function until(seconds) {
  return seconds <= 0 ? "now" : `in ${span(seconds)}`;
}

/** `WaitingForWindow` becomes `Waiting for window`; words in capitals stay. */
export function spelled(reason) {
  const words = reason.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+/g);
  if (!words) return reason;
  const told = words.map((word) => (word === word.toUpperCase() && word.length > 1 ? word : word.toLowerCase()));
  return told.join(" ").replace(/^./, (first) => first.toUpperCase());
}

/** `12 added, 3 changed, 1 deleted`, without zero counts. */
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
