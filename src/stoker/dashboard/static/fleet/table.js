// The table of all gateways, with a group for each resource. Groups are updated in place, by resource id.
import { Wanted } from "../model/filter.js";
import { Group } from "./resource_group.js";
import { loneOf } from "./single_gateway.js";
import { byId, put, show } from "../page/dom.js";
import { compare, Order } from "./sort.js";
import { button, paragraph } from "../page/components.js";
import { counted, figure } from "../model/format.js";

const ROOM = 40;
const EMPTY = "No resources exist, or your account has no permission to see them. New ones appear automatically.";
const WHAT = "A Stoker or IgnitionSync syncs git to gateways. A GitDestination writes cluster objects to git.";
const WHO = "The dashboard shows the resources that your account may list, by kind and namespace.";

export class Table {
  wanted = new Wanted();
  #holding;
  #groups = new Map();
  #sizes = new Map();
  #worst = new Map();
  #node = byId("gateways");
  #order;
  #roomy = false;
  #all;

  /** `all` removes the search and the filter. */
  constructor(holding, all) {
    this.#holding = holding;
    this.#all = all;
    this.#order = new Order(this.#node, () => this.#sorted());
  }

  drawAll() {
    this.#roomy = this.#count() <= ROOM;
    for (const id of this.#groups.keys()) if (!this.#holding.resources.has(id)) this.#drop(id);
    for (const id of this.#holding.resources.keys()) this.#draw(id);
    this.#order.now();
    this.#sayShown();
  }

  drawSome(ids) {
    const before = this.#holding.resources.size + this.#groups.size;
    for (const id of ids) this.#holding.resources.has(id) ? this.#draw(id) : this.#drop(id);
    if (before !== this.#holding.resources.size + this.#groups.size) this.#order.now();
    this.#sayShown();
  }

  #draw(id) {
    const group = this.#holding.resources.get(id);
    let view = this.#groups.get(id);
    if (!view) {
      view = new Group(group.resource);
      this.#groups.set(id, view);
      this.#node.append(view.node);
    }
    this.#sizes.set(id, view.update(group, this.wanted, { roomy: this.#roomy }));
    if (this.#worst.get(id) !== group.worst) this.#order.soon();
    this.#worst.set(id, group.worst);
  }

  #drop(id) {
    this.#groups.get(id)?.node.remove();
    for (const map of [this.#groups, this.#sizes, this.#worst]) map.delete(id);
  }

  #sorted() {
    const all = [...this.#holding.resources.values()].filter(({ resource }) => this.#groups.has(resource.id));
    return all.sort(compare).map(({ resource }) => this.#groups.get(resource.id).node);
  }

  #count() {
    let count = 0;
    for (const { gateways } of this.#holding.resources.values()) count += gateways.length;
    return count;
  }

  #sayShown() {
    const sizes = [...this.#sizes.values()].filter((size) => size >= 0);
    const gateways = sizes.reduce((sum, size) => sum + size, 0);
    const of = `${counted(gateways, "gateway")} of ${figure(this.#count())} shown`;
    put(byId("shown"), this.wanted.anything ? "" : of);
    const lone = loneOf(this.#holding) !== null;
    show(this.#node, sizes.length > 0 && !lone);
    // A page with destinations only needs no message about gateways.
    this.#sayNothing(!lone && !sizes.length && (this.#holding.resources.size > 0 || !this.#holding.destinations.size));
  }

  #sayNothing(nothing) {
    const node = byId("nothing");
    show(node, nothing);
    if (!nothing) return;
    const parts = this.wanted.anything
      ? [paragraph(EMPTY), paragraph(WHAT), paragraph(`You are signed in as ${this.#holding.you.name}. ${WHO}`)]
      : [paragraph("No gateway matches."), button("plain", () => this.#all(), "Show all gateways")];
    node.replaceChildren(...parts);
  }
}
