// The buttons of a resource, by the visitor's permissions, or a sentence if there are none.
// The server checks permissions again: hiding a button is for convenience, not for security.
import { asked } from "./confirm_dialog.js";
import { icon, make } from "../page/dom.js";
import { give, of } from "../server/actions.js";
import { button, paragraph } from "../page/components.js";
import { rollBack } from "./rollback_dialog.js";
import { changesOf, counted, shortCommit } from "../model/format.js";

const UNDER_YOUR_NAME = "The approval is recorded under your name and is valid for this plan only.";

/** The buttons of a resource; with `gateway`, its history and snapshots are the targets of a rollback. */
export function actionsOf(resource, gateway = null) {
  const may = (...words) => words.some((word) => resource.may.includes(word));
  const ask = (action) => (pressed) => give(pressed, of(resource, action));
  const buttons = [];
  const add = (shape, word, press) => buttons.push(button("act", press, icon(shape), word));
  // The standalone server refuses these while everything is stopped, so they get no button.
  const alone = document.body.dataset.mode === "standalone";
  const stopped = alone && document.body.classList.contains("all-stopped");
  if (may("sync") && !stopped && !(alone && resource.paused)) add("syncing", "Sync now", ask("sync"));
  if (resource.paused && may("resume", "pause")) add("play", "Resume", ask("resume"));
  if (!resource.paused && may("pause")) add("paused", "Pause", ask("pause"));
  if (resource.rollback && may("release", "rollback")) {
    add("next", `Follow ${refOf(resource)} again…`, (pressed) => followAgain(pressed, resource));
  }
  if (may("rollback") && !stopped) add("back", "Roll back…", (pressed) => rollBack(pressed, resource, gateway));
  return buttons;
}

/** Explains why there are no buttons. */
export function whyNone({ kind, name, namespace }) {
  const whose = `${kind} ${name} in namespace ${namespace}`;
  return `View only: your account has no permission to change ${whose}.`;
}

function refOf(resource) {
  return resource.ref || "the ref";
}

async function followAgain(pressed, resource) {
  const ref = refOf(resource);
  const whom = counted(resource.gateways.length, "gateway");
  const sure = await asked({
    title: `Follow ${ref} again?`,
    confirm: "Follow the ref again",
    shape: "next",
    body: [paragraph(`${resource.name} was rolled back. It will follow ${ref} again, on ${whom}.`)],
  });
  if (sure) await give(pressed, of(resource, "release"));
}

export async function approve(pressed, resource) {
  const plan = resource.approval;
  const whom = counted(plan.gateways.length, "gateway");
  const stopped = document.body.classList.contains("all-stopped");
  const alone = document.body.dataset.mode === "standalone";
  const when = stopped ? "after the emergency stop ends" : "as soon as you approve";
  const body = [
    paragraph(`${plan.ref} (commit ${shortCommit(plan.commit)}) goes to ${whom} ${when}.`),
    paragraph(plan.gateways.length > 1 ? "Files over all gateways: " : "Files: ", make("b", {}, changesOf(plan)), "."),
    make("p", { class: "quiet" }, alone ? "The approval is valid for this plan only." : UNDER_YOUR_NAME),
  ];
  const gone = `${counted(plan.deleted, "file")} will be deleted.`;
  if (plan.deleted) body.splice(2, 0, make("p", { class: "warn" }, icon("failed"), gone));
  const title = `Approve ${plan.ref} for ${resource.name}?`;
  const sure = await asked({ title, confirm: "Approve", shape: "hand", body });
  if (sure) await give(pressed, of(resource, "approve", { digest: plan.digest }));
}
