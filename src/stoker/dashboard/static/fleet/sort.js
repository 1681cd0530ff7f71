// In which order resources stand, and when they may move. Nothing moves under a hand: while somebody points at the
// table or types in it, the old order stays; what it says is still up to date.
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

  /** `sorted()` gives the nodes of all groups as they should stand. */
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
      // Whoever went down is passed over and placed at its turn; otherwise all that it passed would have to move.
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

/** Problems first, then what waits for a person, then by name. */
export function compare(a, b) {
  return rank(a.worst) - rank(b.worst)
    || notable(b.resource) - notable(a.resource)
    || byName(a.resource.namespace, b.resource.namespace)
    || byName(a.resource.name, b.resource.name);
}

/** What a person did, or has to do, comes before what goes by itself. */
function notable(resource) {
  return 2 * waitsForApproval(resource) + Boolean(resource.paused || resource.rollback);
}
