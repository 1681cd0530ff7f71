// Cards of the plans that wait for approval, at the top of the page.
import { approve, whyNone } from "./buttons.js";
import { isHeldByGuard, waitsForApproval } from "../model/gateway_status.js";
import { byId, icon, make, put, show } from "../page/dom.js";
import { button, commit, diffCounts, link, list, placeOf, quiet } from "../page/components.js";
import { routeTo } from "../page/route.js";
import { moment } from "../page/clock.js";
import { counted, withoutDigests } from "../model/format.js";

export class Approvals {
  #cards = new Map();

  draw(holding) {
    const waiting = [...holding.resources.values()].map((one) => one.resource).filter(waitsForApproval);
    show(byId("approvals"), waiting.length > 0);
    put(byId("approvals-title"), counted(waiting.length, "plan awaits approval", "plans await approval"));
    const ids = new Set(waiting.map((one) => one.id));
    for (const [id, { node }] of this.#cards) {
      if (ids.has(id)) continue;
      node.remove();
      this.#cards.delete(id);
    }
    for (const resource of waiting) this.#drawOne(resource);
  }

  /** Rebuilds a card only if its plan or the permissions changed, so a button stays while it is pressed. */
  #drawOne(resource) {
    const key = JSON.stringify([resource.approval, resource.may]);
    const old = this.#cards.get(resource.id);
    if (old?.key === key) {
      old.resource = resource;
      return;
    }
    const kept = { key, resource };
    kept.node = card(kept);
    if (old) old.node.replaceWith(kept.node);
    else byId("approval-cards").append(kept.node);
    this.#cards.set(resource.id, kept);
  }
}

function card(kept) {
  const { resource } = kept;
  const plan = resource.approval;
  const acts = resource.may.includes("approve")
    ? button("main", (pressed) => approve(pressed, kept.resource), icon("step"), "Approve…")
    : make("p", { class: "quiet" }, whyNone(resource));
  return make("article", { class: "card approval", data: { id: resource.id } }, what(resource, plan), much(plan), acts);
}

function what(resource, plan) {
  const stage = plan.stage ? `, stage ${plan.stage}` : "";
  const whom = ` to ${counted(plan.gateways.length, "gateway")}${stage}`;
  return make("div", { class: "what" },
    make("h3", {}, icon("hand"), link(routeTo(resource), resource.name), quiet(placeOf(resource))),
    make("p", { class: "lead" }, "will deliver ", make("b", {}, plan.ref), " ", commit(plan.commit), whom),
    plan.message ? make("p", { class: "warn" }, icon("failed"), plan.message) : null,
    held(resource),
    perGateway(plan));
}

/** The guard's reason, if a guard holds the plan. */
function held({ reason, message }) {
  if (!isHeldByGuard(reason)) return null;
  return make("p", { class: "warn" }, icon("failed"), make("span", {}, withoutDigests(message)));
}

function much(plan) {
  const lapses = plan.expires ? [", lapses ", moment(plan.expires, "until")] : [];
  return make("div", {}, diffCounts(plan), make("p", { class: "quiet" }, "Asked ", moment(plan.since), ...lapses));
}

function perGateway(plan) {
  if (plan.gateways.length < 2) return null;
  const rows = plan.gateways.map((one) =>
    make("li", {}, make("b", {}, one.name), ` +${one.added} ~${one.modified} −${one.deleted}`));
  return make("details", {}, make("summary", {}, "On each gateway"), list("per-gateway", rows));
}
