// The side panel: details of a gateway or a resource, with its actions. It never covers the emergency stop,
// and the visible rest of the page stays usable; on a phone it fills the page below the top bar.
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

  /** Shows the gateway or resource that the URL's fragment names. */
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

  /** Marks the open row in the table. */
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
    // The row that opened it may have been rebuilt meanwhile.
    const links = [...document.querySelectorAll("#lone a, #gateways a.open")];
    const again = links.find((link) => link.hash === this.#opener?.hash);
    (this.#opener?.isConnected ? this.#opener : again)?.focus();
    this.#opener = null;
  }

  /** On a phone the panel covers the rest of the page, which must then not receive focus by Tab. */
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

  /** Replaces the content; the focus stays on the element with the same name. */
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

  /** Loads the history again only after the gateway has changed. */
  async #loadPast(resource, gateway, node) {
    const key = [resource.id, gateway.name, gateway.commit, gateway.syncedAt, gateway.state].join("\n");
    const known = this.#past.key === key;
    if (!known) this.#past = { key, nodes: [make("p", { class: "quiet" }, "Loading the history…")] };
    node.append(...this.#past.nodes);
    if (known) return;
    const nodes = await pastNodes(resource, gateway);
    if (this.#past.key !== key) return;
    this.#past.nodes = nodes;
    // The panel may have been redrawn meanwhile, with another node for the same history.
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
