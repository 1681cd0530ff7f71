// Offers the targets of a rollback, from the history of gateways, and explains the effect.
// A commit applies to the whole resource; a snapshot belongs to one gateway, and only that gateway changes.
// A resource in a cluster has at most one rollback: a second would undo the first, so the server refuses it.
import { asked } from "./confirm_dialog.js";
import { wentWell } from "../details/history.js";
import { make, put } from "../page/dom.js";
import * as notices from "../page/toasts.js";
import { give, of } from "../server/actions.js";
import { paragraph } from "../page/components.js";
import { pastOf } from "../server/api.js";
import { moment } from "../page/clock.js";
import { counted, shortCommit, size } from "../model/format.js";

const LOOKED_AT = 3;

export async function rollBack(pressed, resource, gateway) {
  if (resource.rollback && document.body.dataset.mode !== "standalone") {
    await tellTaken(resource);
    return;
  }
  let choices;
  try {
    choices = await choicesFor(resource, gateway);
  } catch (trouble) {
    notices.failed(trouble.message);
    return;
  }
  if (!choices.length) {
    const whose = gateway ? gateway.name : resource.name;
    notices.failed(`No rollback target: ${whose} has no earlier commit and no snapshot.`);
    return;
  }
  const chosen = await chosenOf(choices, resource, gateway);
  if (!chosen) return;
  const { toCommit = null, toSnapshot = null } = chosen;
  const whom = toSnapshot ? gateway.name : null;
  await give(pressed, of(resource, "rollback", { gateway: whom, toCommit, toSnapshot }));
}

/** Explains the current rollback, and what another would do to its gateways. */
function tellTaken(resource) {
  const { name, ref, gateways, rollback } = resource;
  const { toSnapshot, toCommit } = rollback;
  const owner = gateways.filter((one) => toSnapshot?.startsWith(`${one.name}-`)).sort(byLength).at(-1);
  const many = gateways.length > 1 ? `all ${counted(gateways.length, "gateway")} of ${name}` : name;
  const whom = toSnapshot ? owner?.name ?? "its gateway" : many;
  const where = toSnapshot ? `snapshot ${toSnapshot}` : `commit ${shortCommit(toCommit ?? "")}`;
  return asked({
    title: `${name} is already rolled back`,
    confirm: "Close",
    cancel: "",
    shape: "back",
    body: [
      paragraph(`To ${where}. A resource has one rollback: another one would replace it and sync ${ref} to ${whom}.`),
      paragraph(`To do that, first let ${name} follow ${ref} again, then roll back.`),
    ],
  });
}

function byLength(one, other) {
  return one.name.length - other.name.length;
}

/** Earlier commits first, with the newest selected; snapshots only for a single gateway. */
async function choicesFor(resource, gateway) {
  const names = gateway ? [gateway.name] : resource.gateways.slice(0, LOOKED_AT).map((one) => one.name);
  const pasts = await Promise.all(names.map((name) => pastOf(resource, name)));
  const commits = new Map();
  for (const entry of pasts.flatMap((past) => past.history)) {
    if (!wentWell(entry) || !entry.commit || entry.commit === resource.commit || commits.has(entry.commit)) continue;
    commits.set(entry.commit, { toCommit: entry.commit, ref: entry.ref, at: entry.timestamp });
  }
  const kept = gateway ? pasts[0].snapshots : [];
  const snapshots = kept.map((one) => ({ toSnapshot: one.id, size: one.size, at: one.timestamp }));
  return [...commits.values(), ...snapshots];
}

function chosenOf(choices, resource, gateway) {
  const effect = make("p", { class: "effect", role: "status" });
  const tell = (choice) => put(effect, effectOf(choice, resource, gateway));
  const set = fieldset(choices, tell);
  tell(choices[0]);
  return asked({
    title: `Roll ${resource.name} back?`,
    confirm: "Roll back",
    danger: true,
    shape: "back",
    body: [set, effect],
    answer: () => choices[Number(set.querySelector(":checked").value)],
  });
}

function fieldset(choices, chosen) {
  const on = { change: (event) => chosen(choices[Number(event.target.value)]) };
  const labels = choices.map((choice, index) => {
    const input = make("input", { type: "radio", name: "to", value: String(index), checked: index === 0 });
    return make("label", {}, input, make("span", {}, ...told(choice)));
  });
  return make("fieldset", { class: "choices", on }, make("legend", {}, "Roll back to"), ...labels);
}

function told({ toCommit, toSnapshot, ref, size: bytes, at }) {
  if (toCommit) return [make("b", {}, `Commit ${shortCommit(toCommit)}`), ` ${ref}, delivered `, moment(at)];
  const taken = at ? [", taken ", moment(at)] : [];
  return [make("b", {}, "Snapshot"), ` ${toSnapshot}`, bytes ? ` (${size(bytes)})` : "", ...taken];
}

function effectOf(choice, resource, gateway) {
  const { name, ref, gateways } = resource;
  if (choice.toSnapshot) {
    const others = gateways.length - 1;
    const rest = others ? `The other ${counted(others, "gateway")} of ${name} stay unchanged.` : "";
    const back = `Only ${gateway.name} is rolled back, to the files in this snapshot`;
    return `${back}, and stays there until you let it follow ${ref} again. ${rest}`.trim();
  }
  const all = gateways.length === 1 ? "Its gateway gets" : `All ${counted(gateways.length, "gateway")} get`;
  const files = `${all} the files of commit ${shortCommit(choice.toCommit)}.`;
  return `${files} ${name} stays there and does not follow ${ref} until you let it follow again.`;
}
