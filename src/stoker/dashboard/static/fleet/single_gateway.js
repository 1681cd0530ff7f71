// The single gateway of a standalone page, in place of the table: its problem in full, its actions, and a
// link to its history. Counts, search and columns of a fleet would be useless here.
import { actionsOf } from "../actions/buttons.js";
import { drift, trouble } from "../details/content.js";
import { waitsForApproval } from "../model/gateway_status.js";
import { byId, make, show } from "../page/dom.js";
import { commit, facts, link } from "../page/components.js";
import { routeTo } from "../page/route.js";
import { holders, whyOf } from "./gateway_row.js";
import { moment } from "../page/clock.js";

/** The label of a button after it was pressed, so that the focus can stay on it. */
const TURNED = { Pause: "Resume", Resume: "Pause" };

export class Lone {
  #key = "";

  /** Draws the gateway if the page has a single one, and hides this section otherwise. */
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

/** The resource if the page has a single gateway; null if it has more, or shows a cluster. */
export function loneOf({ mode, resources }) {
  const [judged] = resources.values();
  return mode === "standalone" && judged?.gateways.length === 1 ? judged : null;
}

/** The link or button with this text. */
function stop(node, words) {
  return [...node.querySelectorAll("a, button")].find((one) => one.textContent === words);
}

function nodes({ resource, gateways: [{ gateway, standing }] }, stopped) {
  const still = resource.paused || stopped;
  const past = link(routeTo(resource, gateway.name), "History and snapshots");
  past.className = "open-past";
  const whom = { class: "actions", role: "group", "aria-label": `Actions for ${gateway.name}` };
  return [
    trouble(standing, whyBelow(resource, gateway, standing)),
    make("div", whom, ...actionsOf(resource, gateway), past),
    facts([
      ["Follows", still || resource.rollback ? `nothing now, afterwards ${resource.ref}` : resource.ref],
      ["Commit", commit(gateway.commit) || "none yet"],
      ["Synced", gateway.syncedAt ? moment(gateway.syncedAt) : "never"],
      ["In Designer", holders(gateway)],
      ["Reason", still && gateway.reason === "Paused" ? "" : gateway.reason],
      ["Resource", resource.kind === "Folder" ? "" : `${resource.kind} ${resource.name} in ${resource.namespace}`],
    ]),
    drift(gateway),
  ];
}

/** The error, unless the headline already explains it: a pause, or a plan that waits for approval. */
function whyBelow(resource, gateway, standing) {
  if (waitsForApproval(resource) || (gateway.reason === "Paused" && standing !== "drifted")) return "";
  return whyOf(gateway, standing);
}
