// A row of the table: one gateway. It is built once; then only changed cells are written.
import { icon, make, put } from "../page/dom.js";
import { sentenceOf } from "../model/reason_text.js";
import { routeTo } from "../page/route.js";
import { moment, setMoment } from "../page/clock.js";
import { counted, listed, shortCommit } from "../model/format.js";

/** Labels beside the values where the layout has no table header. */
const CELLS = { ref: "Ref", commit: "Commit", synced: "Synced", drift: "Drift", held: "In Designer", why: "Reason" };

export class Row {
  #cells = {};
  #last = null;

  constructor(resource, { gateway }) {
    this.word = make("span");
    this.use = make("span", { class: "pill" }, icon("step"), this.word);
    this.open = make("a", { class: "open", href: routeTo(resource, gateway.name) }, gateway.name);
    this.time = moment(null);
    for (const [name, label] of Object.entries(CELLS)) {
      this.#cells[name] = make("td", { role: "cell", class: name, data: { label } });
    }
    this.#cells.synced.append(this.time);
    const head = [
      make("td", { role: "cell", class: "state" }, this.use),
      make("th", { role: "rowheader", scope: "row", class: "name" }, this.open),
    ];
    this.node = make("tr", { role: "row", class: "gateway" }, ...head, ...Object.values(this.#cells));
  }

  update({ gateway, standing, word }) {
    if (this.#last?.gateway === gateway) return;
    if (this.#last && this.#last.standing !== standing) this.#flash();
    this.#last = { gateway, standing };
    setStanding(this.use, standing);
    put(this.word, word);
    put(this.#cells.ref, gateway.ref);
    put(this.#cells.commit, shortCommit(gateway.commit));
    this.#cells.commit.title = gateway.commit;
    setMoment(this.time, gateway.syncedAt);
    put(this.#cells.drift, gateway.drift ? counted(gateway.drift, "file") : "");
    put(this.#cells.held, holders(gateway));
    put(this.#cells.why, whyOf(gateway, standing));
    this.#cells.why.title = gateway.message;
  }

  /** Highlights a changed row once; CSS disables it for users who prefer reduced motion. */
  #flash() {
    this.node.classList.remove("changed");
    requestAnimationFrame(() => this.node.classList.add("changed"));
  }
}

export function setStanding(node, standing) {
  if (node.dataset.standing === standing) return;
  node.dataset.standing = standing;
  node.querySelector("use").setAttribute("href", `#i-${standing}`);
}

/** The users with open projects: `anna (Bottling)`. */
export function holders({ heldBy }) {
  return listed(heldBy.map(({ user, project }) => (user ? `${user} (${project})` : project)), 2);
}

/** The explanation of a gateway's status; even a synced gateway may have a warning. */
export function whyOf(gateway, standing) {
  if (gateway.message) return gateway.message;
  if (standing === "step") return "";
  if (standing === "drifted") return "Files were changed on the gateway";
  if (gateway.takenBack) return "Rolled back; does not follow the ref";
  return sentenceOf(gateway.reason);
}
