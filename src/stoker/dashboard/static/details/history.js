// The history of a gateway, newest first: each sync with its result and its changes.
import { isOnItsWay } from "../model/gateway_status.js";
import { make } from "../page/dom.js";
import { commit, diffCounts, list, paths, pill, quiet } from "../page/components.js";
import { moment } from "../page/clock.js";
import { changesOf, counted, shortCommit, size, spelled } from "../model/format.js";

const SIGNS = { added: ["+", "added"], modified: ["~", "changed"], deleted: ["−", "deleted"] };

export function wentWell(entry) {
  return entry.result.toLowerCase() === "success";
}

export function historyOf(past) {
  if (!past.history.length) return make("p", { class: "quiet" }, "No sync has finished yet.");
  return make("ol", { class: "history" }, ...past.history.map(entryOf));
}

export function snapshotsOf(past) {
  if (!past.snapshots.length) return make("p", { class: "quiet" }, "There is no snapshot.");
  return list("snapshots", past.snapshots.map(({ id, size: bytes, timestamp }) =>
    make("li", {}, make("code", {}, id), quiet(bytes ? `${size(bytes)}, ` : "", timestamp ? moment(timestamp) : ""))));
}

/** Neither a rollback nor a sync that only has to wait is shown as a failure. */
function outcome(entry) {
  if (wentWell(entry)) return pill("step", "Synced");
  if (entry.result === "RolledBack") return pill("waiting", "Rolled back", "back");
  return pill(isOnItsWay(entry.result) ? "waiting" : "failed", spelled(entry.result));
}

function entryOf(entry) {
  const took = entry.duration ? `, took ${entry.duration}` : "";
  const head = make("div", { class: "entry-head" },
    outcome(entry), make("b", {}, entry.ref), commit(entry.commit), quiet(moment(entry.timestamp), took));
  const count = entry.filesChanged ? `${counted(entry.filesChanged, "file")} changed` : "";
  return make("li", {}, head, entry.diff ? diffOf(entry.diff) : quiet(count));
}

function diffOf(diff) {
  const all = diff.added + diff.modified + diff.deleted;
  if (!all) return quiet("No files changed.");
  const from = diff.fromCommit ? `from ${shortCommit(diff.fromCommit)}` : "first sync";
  return make("details", {},
    make("summary", {}, `${counted(all, "file")}: ${changesOf(diff)}`),
    make("p", { class: "quiet" }, `${from} to ${shortCommit(diff.toCommit)}`),
    diffCounts(diff),
    paths(diff.changes.map(pathOf), all));
}

function pathOf({ action, path }) {
  const [sign, word] = SIGNS[action] ?? ["·", action];
  const shown = make("span", { class: "sign", "aria-hidden": "true" }, sign);
  return make("li", { class: word }, shown, make("span", { class: "unseen" }, `${word}: `), path);
}
