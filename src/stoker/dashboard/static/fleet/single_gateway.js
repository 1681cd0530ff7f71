// The one gateway of a page without a cluster, in place of a table: what is wrong in full, what can be done, and where
// to read on. A fleet's counts, search and columns would only stand around it.
import { actionsOf } from "../actions/buttons.js";
import { drift, trouble } from "../details/content.js";
import { waitsForApproval } from "../model/gateway_status.js";
import { byId, make, show } from "../page/dom.js";
import { commit, facts, link } from "../page/components.js";
import { routeTo } from "../page/route.js";
import { holders, whyOf } from "./gateway_row.js";
import { moment } from "../page/clock.js";

/** What a button becomes when it was pressed; whoever pressed it stays on it. */
const TURNED = { Pause: "Resume", Resume: "Pause" };

export class Lone {
  #key = "";

  /** Draws it, and says whether this page is about one gateway alone. */
  draw(holding) {
    const judged = loneOf(holding);
    document.body.classList.toggle("lone", judged !== null);
    show(byId("lone"), judged !== null);
    const key = judged ? JSON.stringify([judged.resource, holding.stop.active]) : "";
    if (key === this.#key) return;
    this.#key = key;
    const node = byId("lone");
    const had = node.contains(document.activeElement) ? document.activeElement.textContent : null;
    node.replaceChildren(...(judged ? nodes(judged, holding.stop.active) : []));
    if (had !== null) (stop(node, had) ?? stop(node, TURNED[had]) ?? byId("fleet-title")).focus();
  }
}

/** The resource of a page that is about one gateway; null where it is about more, or about a cluster. */
export function loneOf({ mode, resources }) {
  const [judged] = resources.values();
  return mode === "standalone" && judged?.gateways.length === 1 ? judged : null;
}

/** What Tab stops at, by its words. */
function stop(node, words) {
  return [...node.querySelectorAll("a, button")].find((one) => one.textContent === words);
}

function nodes({ resource, gateways: [{ gateway, standing }] }, stopped) {
  const still = resource.paused || stopped;
  const past = link(routeTo(resource, gateway.name), "History and snapshots");
  past.className = "open-past";
  const whom = { class: "actions", role: "group", "aria-label": `Acts on ${gateway.name}` };
  return [
    trouble(standing, whyBelow(resource, gateway, standing)),
    make("div", whom, ...actionsOf(resource, gateway), past),
    facts([
      ["Follows", still || resource.rollback ? `nothing for now, then ${resource.ref}` : resource.ref],
      ["Commit", commit(gateway.commit) || "none yet"],
      ["Synced", gateway.syncedAt ? moment(gateway.syncedAt) : "never"],
      ["In a designer", holders(gateway)],
      ["Reason", still && gateway.reason === "Paused" ? "" : gateway.reason],
      ["Resource", resource.kind === "Folder" ? "" : `${resource.kind} ${resource.name} in ${resource.namespace}`],
    ]),
    drift(gateway),
  ];
}

/** What went wrong, unless the words above have said it: a pause, or a plan that waits. */
function whyBelow(resource, gateway, standing) {
  if (waitsForApproval(resource) || (gateway.reason === "Paused" && standing !== "drifted")) return "";
  return whyOf(gateway, standing);
}
