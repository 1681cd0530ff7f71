// The emergency stop: always in the same corner, two deliberate steps, and a clear banner while it is active.
import { asked } from "./confirm_dialog.js";
import { byId, icon, make, show } from "../page/dom.js";
import { give } from "../server/actions.js";
import { button, list, paragraph } from "../page/components.js";
import { moment } from "../page/clock.js";
import { counted } from "../model/format.js";

const STILL_WRITTEN = "Changes in the cluster are still written to git.";
const EFFECTS = [
  "A sync that is already running is completed.",
  "The stop lasts until a user resumes, also across restarts.",
];

export class Stopping {
  #holding;
  #key = "";

  constructor(holding) {
    this.#holding = holding;
  }

  draw() {
    const { active, since, may } = this.#holding.stop;
    const key = JSON.stringify([active, since, may, this.#holding.destinations.size > 0, this.#holding.mode]);
    if (key === this.#key) return;
    this.#key = key;
    document.body.classList.toggle("all-stopped", active);
    show(byId("stopped"), active);
    byId("stop-place").replaceChildren(...(active ? [sign()] : may ? [this.#stopButton()] : []));
    byId("stopped-act").replaceChildren(...(active && may ? [this.#goOnButton()] : []));
    const when = since ? [" Stopped ", moment(since), "."] : [];
    const who = may ? "" : " Your account has no permission to resume.";
    byId("stopped-text").replaceChildren(this.#what(), who, ...when);
  }

  #stopButton() {
    const words = make("span", {}, make("span", { class: "wide" }, "Emergency "), "stop");
    const made = button("stop", (pressed) => this.#stop(pressed), icon("stop"), words);
    made.setAttribute("aria-label", "Emergency stop"); // a phone shows only the second word
    return made;
  }

  #goOnButton() {
    return button("main", (pressed) => this.#goOn(pressed), icon("play"), "Resume everything…");
  }

  #what() {
    const one = "Nothing is delivered to the gateway. It keeps running with its current files.";
    if (this.#holding.mode === "standalone") return one;
    const what = "Nothing is delivered to any gateway. Gateways keep running with their current files.";
    return this.#holding.destinations.size ? `${what} ${STILL_WRITTEN}` : what;
  }

  /** The affected gateways; a visitor who sees only destinations sees none of them. */
  #size() {
    if (!this.#holding.resources.size) return "the gateways of this cluster, which are not on this page";
    if (this.#holding.mode === "standalone") return "the gateway";
    let gateways = 0;
    for (const one of this.#holding.resources.values()) gateways += one.gateways.length;
    return `${counted(gateways, "gateway")} of ${counted(this.#holding.resources.size, "resource")}`;
  }

  #effects() {
    const one = this.#holding.mode === "standalone";
    const runs = one ? "The gateway keeps running on its current files." : "Gateways keep running on their files.";
    const written = this.#holding.destinations.size ? [`The stop affects only gateways. ${STILL_WRITTEN}`] : [];
    return [runs, ...EFFECTS, ...written];
  }

  async #stop(pressed) {
    const sure = await asked({
      title: "Stop everything?", confirm: "Stop everything now", danger: true, shape: "stop",
      body: [
        paragraph(`Stops all deliveries to ${this.#size()}.`),
        list("effects", this.#effects().map((text) => make("li", {}, text))),
      ],
    });
    if (sure) await give(pressed, { action: "stop" });
  }

  async #goOn(pressed) {
    const sure = await asked({
      title: "Resume everything?", confirm: "Resume everything", shape: "play",
      body: [
        paragraph(`Changes that arrived during the stop are delivered now, to ${this.#size()}.`),
        paragraph("Resources that were paused individually stay paused."),
      ],
    });
    if (sure) await give(pressed, { action: "goOn" });
  }
}

function sign() {
  return make("p", { class: "stop on" }, icon("stop"), "Stopped");
}
