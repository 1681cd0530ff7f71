// Shows whether the page is live, or how old it is. While it is not live, a banner says so, and every action
// except the emergency stop is refused, because an outdated plan must not be approved.
import { byId, icon, make, put, show } from "../page/dom.js";
import { now } from "../page/clock.js";
import { span } from "../model/format.js";

const PATIENCE = 1500;
const WORDS = { live: ["live", "Live"], connecting: ["syncing", "Connecting"], lost: ["lost", "Not live"] };

export class Linking {
  #link = "none";
  #since = 0;
  #timer = 0;

  constructor(retry) {
    byId("retry").addEventListener("click", retry);
  }

  /** "connecting", "live", "lost", "resting" while the tab is hidden, or "none" without a session. */
  set(link) {
    if (this.#link === "live" && link !== "live") this.#since = now();
    if (link === "none") this.#since = 0;
    this.#link = link;
    clearTimeout(this.#timer);
    // A stream that is back within a moment causes no banner.
    if (link === "lost" && this.#since) this.#timer = setTimeout(() => this.#keepSaying(), PATIENCE);
    else this.#keepSaying();
  }

  #keepSaying() {
    this.#draw(this.#link);
    if (this.#link === "lost") this.#timer = setTimeout(() => this.#keepSaying(), 1000);
  }

  #draw(link) {
    const node = byId("link");
    if (document.body.dataset.link !== link || !node.firstChild) {
      document.body.dataset.link = link;
      const [shape, word] = WORDS[link] ?? WORDS.connecting;
      node.replaceChildren(icon(shape), make("span", {}, word));
      for (const place of ["main", "side"]) byId(place).classList.toggle("old", link === "lost");
    }
    show(byId("stale"), link === "lost");
    if (link !== "lost") return;
    const age = this.#since ? `This page is ${span((now() - this.#since) / 1000)} out of date.` : "";
    put(byId("stale-text"), `Connection lost; reconnecting. ${age}`.trim());
  }
}
