// The content of the side panel: details of a gateway or a resource.
import { actionsOf, approve, whyNone } from "../actions/buttons.js";
import { waitsForApproval } from "../model/gateway_status.js";
import { icon, make } from "../page/dom.js";
import { bareButton, button, commit, diffCounts, facts, link, list, paths, pill, placeOf } from "../page/components.js";
import { routeTo } from "../page/route.js";
import { holders, whyOf } from "../fleet/gateway_row.js";
import { moment } from "../page/clock.js";
import { counted, shortCommit, withoutDigests } from "../model/format.js";

const MEMBERS = 200;

/** `past` is the node that receives the history once it is loaded. */
export function gatewayNodes({ resource }, { gateway, standing, word }, close, past) {
  const under = ["gateway of ", link(routeTo(resource), resource.name), ` · ${placeOf(resource)}`];
  return [
    head(pill(standing, word), gateway.name, close, ...under),
    trouble(standing, whyOf(gateway, standing)),
    plan(resource),
    actions(resource, gateway),
    facts([
      ["Ref", gateway.ref],
      ["Commit", commit(gateway.commit)],
      ["Target commit", gateway.commit === resource.commit ? "" : commit(resource.commit)],
      ["Synced", gateway.syncedAt ? moment(gateway.syncedAt) : "never"],
      ["Pod", gateway.pod],
      ["Stage", gateway.stage],
      ["Reason", gateway.reason],
      ["In Designer", holders(gateway)],
    ]),
    drift(gateway),
    past,
  ];
}

export function resourceNodes({ resource, worst, word, gateways }, close) {
  const { rollback, release } = resource;
  const shown = gateways.slice(0, MEMBERS).map((one) =>
    make("li", {}, pill(one.standing, one.word), link(routeTo(resource, one.gateway.name), one.gateway.name)));
  return [
    head(pill(worst, word), resource.name, close, placeOf(resource)),
    trouble(resource.ready === "False" ? worst : "step", resource.message),
    plan(resource),
    actions(resource, null),
    facts([
      ["Delivers", make("span", {}, `${resource.ref} `, commit(resource.commit))],
      ["Last sync", resource.lastSync ? moment(resource.lastSync) : "never"],
      ["Paused", resource.paused ? "yes, no changes are applied" : ""],
      ["Rolled back to", rollback ? backTo(rollback) : ""],
      ["Release", release ? `${release.stage} ${release.message}`.trim() : ""],
      ["Reason", resource.reason],
    ]),
    make("h3", {}, counted(gateways.length, "gateway")),
    list("members", shown),
  ];
}

export function goneNodes(name, close) {
  return [head(pill("waiting", "Gone"), name, close, "It was deleted, or your account may not see it.")];
}

function head(state, title, close, ...under) {
  const name = make("h2", { id: "side-title", tabindex: "-1" }, title);
  const where = make("p", { class: "quiet" }, ...under);
  return make("header", {}, state, bareButton("close", "Close", close), name, where);
}

export function trouble(standing, sentence) {
  return sentence ? make("p", { class: "trouble", data: { standing } }, withoutDigests(sentence)) : "";
}

/** Repeats a plan that waits for approval: on a phone the panel hides the card at the top. */
function plan(resource) {
  if (!waitsForApproval(resource)) return "";
  const { ref, commit: id, gateways } = resource.approval;
  const whom = ` is waiting for approval, for ${counted(gateways.length, "gateway")} of ${resource.name}`;
  const what = make("p", {}, make("b", {}, ref), " ", commit(id), whom);
  const act = resource.may.includes("approve")
    ? button("main", (pressed) => approve(pressed, resource), icon("step"), "Approve…") : "";
  return make("section", { class: "plan", "aria-label": "Plan" }, what, diffCounts(resource.approval), act);
}

function actions(resource, gateway) {
  const buttons = actionsOf(resource, gateway);
  if (!buttons.length) return make("p", { class: "view-only" }, icon("eye"), whyNone(resource));
  const many = resource.gateways.length;
  const whom = many > 1 ? `For all ${counted(many, "gateway")} of ${resource.name}` : `For ${resource.name}`;
  const note = make("p", { class: "quiet" }, whom);
  return make("div", { class: "actions", role: "group", "aria-label": whom }, note, ...buttons);
}

function backTo({ toSnapshot, toCommit, state, message }) {
  const where = toSnapshot || shortCommit(toCommit ?? "");
  return `${where} (${state.toLowerCase()}) ${message}`.trim();
}

export function drift(gateway) {
  if (!gateway.drift) return "";
  const title = make("h3", {}, `Drift: ${counted(gateway.drift, "file")} changed on the gateway`);
  const items = gateway.driftPaths.map((path) => make("li", { class: "changed" }, path));
  return make("section", { "aria-label": "Drift" }, title, paths(items, gateway.drift));
}
