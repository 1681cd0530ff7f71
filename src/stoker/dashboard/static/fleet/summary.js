// One sentence, one bar and one line of counts; a count is also the button that shows only those gateways.
import { STANDINGS } from "../model/gateway_status.js";
import { byId, icon, make, put, show } from "../page/dom.js";
import { button } from "../page/components.js";
import { setStanding } from "./gateway_row.js";
import { verdictOf } from "../model/headline.js";
import { figure } from "../model/format.js";

export class Tally {
  #buttons = new Map();
  #shares = new Map();

  /** `choose(standing)` is called with the one that was pressed, or "" where it was let go. */
  constructor(choose) {
    byId("verdict-icon").append(icon("waiting", "huge"));
    for (const { key, many } of STANDINGS) {
      const number = make("b");
      const node = button("", () => choose(this.#pressed(key) ? "" : key), icon(key), number, make("span", {}, many));
      node.dataset.standing = key;
      node.setAttribute("aria-pressed", "false");
      this.#buttons.set(key, { node, number });
      const share = make("span", { data: { standing: key } });
      this.#shares.set(key, share);
    }
    byId("tally").append(...[...this.#buttons.values()].map(({ node }) => node));
    byId("share").append(...this.#shares.values());
  }

  /** Draws what is held, and returns what it comes to. */
  draw(holding) {
    const verdict = verdictOf(holding);
    const { counts } = verdict.sum;
    for (const { key } of STANDINGS) {
      const { node, number } = this.#buttons.get(key);
      put(number, figure(counts[key]));
      node.classList.toggle("none", !counts[key]);
      this.#shares.get(key).style.flexGrow = counts[key];
      show(this.#shares.get(key), counts[key] > 0);
    }
    document.body.dataset.about = verdict.about;
    for (const id of ["share", "tally", "tools"]) show(byId(id), verdict.about === "fleet");
    setStanding(byId("verdict-icon"), verdict.standing);
    put(byId("fleet-title"), verdict.sentence);
    put(byId("verdict-more"), verdict.more);
    return verdict;
  }

  choose(standing) {
    for (const [key, { node }] of this.#buttons) node.setAttribute("aria-pressed", String(key === standing));
  }

  #pressed(key) {
    return this.#buttons.get(key).node.getAttribute("aria-pressed") === "true";
  }
}
