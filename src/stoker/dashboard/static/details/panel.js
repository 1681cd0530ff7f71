// The side view: one gateway or one resource from near, with what can be done. It does not cover the emergency stop,
// and what stays visible stays usable; on a phone it takes the whole page below the bar.
import { gatewayNodes, goneNodes, resourceNodes } from "./content.js";
import { historyOf, snapshotsOf } from "./history.js";
import { byId, make } from "../page/dom.js";
import { leaveRoute, routed } from "../page/route.js";
import { pastOf } from "../server/api.js";

const NARROW = matchMedia("(max-width: 59.99rem)");

export class Side {
  #holding;
  #node = byId("side");
  #shown = null;
  #key = "";
  #past = { key: "", nodes: [] };
  #opener = null;

  constructor(holding) {
    this.#holding = holding;
    window.addEventListener("hashchange", () => this.follow());
    window.addEventListener("popstate", () => this.follow());
    NARROW.addEventListener("change", () => this.#cover());
  }

  get open() {
    return this.#shown !== null;
  }

  /** Shows what the address names. */
  follow() {
    const route = routed();
    if (!route) return this.#hide();
    const same = this.#shown && route.id === this.#shown.id && route.gateway === this.#shown.gateway;
    if (same) return undefined;
    this.#opener ??= document.activeElement;
    this.#shown = route;
    this.#key = "";
    this.#past = { key: "", nodes: [] };
    this.#node.hidden = false;
    document.body.classList.add("beside");
    this.#cover();
    this.#mark();
    this.draw();
    this.#node.scrollTop = 0;
    byId("side-title")?.focus();
    return undefined;
  }

  close() {
    leaveRoute();
    this.#hide();
  }

  /** The line that is open here is marked in the table. */
  #mark() {
    for (const old of document.querySelectorAll("#gateways [aria-current]")) old.removeAttribute("aria-current");
    if (!this.#shown) return;
    for (const link of document.querySelectorAll("#gateways a.open")) {
      if (link.hash === location.hash) link.setAttribute("aria-current", "true");
    }
  }

  #hide() {
    if (!this.#shown) return;
    this.#shown = null;
    this.#mark();
    this.#node.hidden = true;
    this.#node.replaceChildren();
    document.body.classList.remove("beside");
    this.#cover();
    // The line that opened it may have been drawn anew meanwhile.
    const links = [...document.querySelectorAll("#lone a, #gateways a.open")];
    const again = links.find((link) => link.hash === this.#opener?.hash);
    (this.#opener?.isConnected ? this.#opener : again)?.focus();
    this.#opener = null;
  }

  /** On a phone the rest of the page is behind it, and out of reach of Tab. */
  #cover() {
    byId("main").inert = this.open && NARROW.matches;
  }

  draw() {
    if (!this.#shown) return;
    const { id, gateway } = this.#shown;
    const judged = this.#holding.resources.get(id);
    const one = judged?.gateways.find((each) => each.gateway.name === gateway);
    const key = JSON.stringify([judged && { ...judged.resource, gateways: one?.gateway ?? judged.resource.gateways }]);
    if (key === this.#key) return;
    this.#key = key;
    this.#redraw(this.#nodes(judged, one));
  }

  #nodes(judged, one) {
    const close = () => this.close();
    if (!judged || (this.#shown.gateway && !one)) return goneNodes(this.#shown.gateway || this.#shown.id, close);
    if (!one) return resourceNodes(judged, close);
    const past = make("div");
    this.#loadPast(judged.resource, one.gateway, past);
    return gatewayNodes(judged, one, close, past);
  }

  /** Replaces the content; the focus stays on what has the same words. */
  #redraw(nodes) {
    const focus = document.activeElement;
    const had = this.#node.contains(focus) ? nameOf(focus) : null;
    const scrolled = this.#node.scrollTop;
    this.#node.replaceChildren(...nodes);
    this.#node.scrollTop = scrolled;
    if (had === null) return;
    const all = [...this.#node.querySelectorAll("a, button, summary, [tabindex]")];
    const same = all.find((node) => nameOf(node) === had);
    (same ?? byId("side-title")).focus();
  }

  /** The past is asked for again only when the gateway has been through something new. */
  async #loadPast(resource, gateway, node) {
    const key = [resource.id, gateway.name, gateway.commit, gateway.syncedAt, gateway.state].join("\n");
    const known = this.#past.key === key;
    if (!known) this.#past = { key, nodes: [make("p", { class: "quiet" }, "Looking up what it has been through…")] };
    node.append(...this.#past.nodes);
    if (known) return;
    const nodes = await pastNodes(resource, gateway);
    if (this.#past.key !== key) return;
    this.#past.nodes = nodes;
    // The side view may have been drawn again meanwhile, over another place for the same past.
    this.#key = "";
    this.draw();
  }
}

function nameOf(node) {
  return node.id || node.getAttribute("aria-label") || node.textContent;
}

async function pastNodes(resource, gateway) {
  try {
    const past = await pastOf(resource, gateway.name);
    return [make("h3", {}, "History"), historyOf(past), make("h3", {}, "Snapshots"), snapshotsOf(past)];
  } catch (problem) {
    return [make("p", { class: "error", role: "alert" }, `The history cannot be shown. ${problem.message}`)];
  }
}
