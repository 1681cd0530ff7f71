// The order of resources, and when it may change. While the user points at the table or types in it, rows
// keep their places; their content is still updated.
import { place } from "./resource_group.js";
import { byName, rank, waitsForApproval } from "../model/gateway_status.js";

const CALM = 2500;
const SELDOM = 1000;
const HANDS = ["pointermove", "pointerdown", "keydown", "focusin"];

export class Order {
  #table;
  #touched = -CALM;
  #timer = 0;
  #sorted;

  /** `sorted()` returns the nodes of all groups in the right order. */
  constructor(table, sorted) {
    this.#table = table;
    this.#sorted = sorted;
    const touch = () => { this.#touched = performance.now(); };
    for (const name of HANDS) table.addEventListener(name, touch, { passive: true });
  }

  now() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    let before = this.#table.tHead.nextElementSibling;
    for (const node of this.#sorted()) {
      if (node === before) before = node.nextElementSibling;
      // A node that moved down is skipped and placed later; otherwise all nodes that it passed would move.
      else if (node === before?.nextElementSibling) before = node.nextElementSibling;
      else place(this.#table, node, before);
    }
  }

  soon() {
    this.#timer ||= setTimeout(() => this.#whenCalm(), SELDOM);
  }

  #whenCalm() {
    const left = this.#touched + CALM - performance.now();
    if (left <= 0) this.now();
    else this.#timer = setTimeout(() => this.#whenCalm(), left);
  }
}

/** Problems first, then what waits for a user, then by name. */
export function compare(a, b) {
  return rank(a.worst) - rank(b.worst)
    || notable(b.resource) - notable(a.resource)
    || byName(a.resource.namespace, b.resource.namespace)
    || byName(a.resource.name, b.resource.name);
}

/** What a user did or has to do comes before what proceeds on its own. */
function notable(resource) {
  return 2 * waitsForApproval(resource) + Boolean(resource.paused || resource.rollback);
}
