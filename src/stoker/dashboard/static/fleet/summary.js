// The headline, the bar and the counts by status; a count is also a button that filters by that status.
import { STANDINGS } from "../model/gateway_status.js";
import { byId, icon, make, put, show } from "../page/dom.js";
import { button } from "../page/components.js";
import { setStanding } from "./gateway_row.js";
import { verdictOf } from "../model/headline.js";
import { figure } from "../model/format.js";

export class Tally {
  #buttons = new Map();
  #shares = new Map();

  /** `choose(standing)` is called with the pressed status, or with "" if the filter is removed. */
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

  /** Draws the summary of the store, and returns it. */
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
