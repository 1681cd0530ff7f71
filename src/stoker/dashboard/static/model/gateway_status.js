// The status (`standing`) of gateways and resources, in six words, the worst first. Pure: no DOM.

/** In the order of the page: problems first. The words are shown beside the icon. */
export const STANDINGS = [
  { key: "failed", word: "Failed", many: "failed" },
  { key: "drifted", word: "Drifted", many: "drifted" },
  { key: "held", word: "Held", many: "open in a Designer" },
  { key: "waiting", word: "Waiting", many: "waiting" },
  { key: "syncing", word: "Syncing", many: "syncing" },
  { key: "step", word: "In sync", many: "in sync" },
];

const RANK = new Map(STANDINGS.map((one, rank) => [one.key, rank]));

/** A resource that is not ready for one of these reasons has no problem: it is in progress or waiting. */
const ON_ITS_WAY = new Set([
  "", "NotYetSeen", "RefResolving", "GatewaysSyncing", "PendingApproval", "Approved", "Paused", "Waiting",
  "WaitingForWindow", "WaitingForStage", "WaitingForTurn", "WaitingForPrimary", "DependencyWaiting", "NoGateways",
  "DesignerSessionActive", "GatewayFilesModified", "AgentStarting", "GatewayStarting", "RolledBack", "PlanPending",
  "NeverSynced", "SyncInProgress", "Reconciling", "ScanLockHeld",
]);

/** A guard holds a plan until it is approved: an error for the agent, a question to the user. */
const GUARDED = new Set(["DeletionBudgetExceeded", "DestinationUnmapped", "DestinationWidened", "SourceEmpty"]);

/** Whether a plan is held for this reason; an empty source also stalls without any plan to approve. */
export function isHeldByGuard(reason) {
  return GUARDED.has(reason);
}

/** Whether a reason means that nothing is wrong. */
export function isOnItsWay(reason) {
  return ON_ITS_WAY.has(reason);
}

/** `line-9` comes before `line-10`. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

export function rank(standing) {
  return RANK.get(standing);
}

export function wordOf(standing) {
  return STANDINGS[rank(standing)].word;
}

/** The most important status of a gateway; a gateway held by a designer may also be synced. */
export function standingOf(gateway) {
  if (gateway.state === "Error") return "failed";
  if (gateway.drift > 0) return "drifted";
  if (gateway.heldBy.length) return "held";
  if (gateway.state === "Syncing") return "syncing";
  if (gateway.takenBack) return "waiting";
  return gateway.state === "Synced" ? "step" : "waiting";
}

/** A resource with its derived values, computed once for each change. */
export function judged(resource) {
  const counts = noCounts();
  const gateways = resource.gateways.map((gateway) => {
    const planned = waitsForApproval(resource) && resource.approval.gateways.some(({ name }) => name === gateway.name);
    const asked = planned && isHeldByGuard(gateway.reason);
    const standing = asked ? "waiting" : standingOf(gateway);
    counts[standing] += 1;
    const back = gateway.takenBack && standing === "waiting" && !asked;
    const word = asked ? "Waiting for approval" : back ? "Rolled back" : wordOf(standing);
    return { gateway, standing, word, key: `${gateway.name}\n${gateway.pod}` };
  });
  gateways.sort((a, b) => rank(a.standing) - rank(b.standing) || byName(a.gateway.name, b.gateway.name));
  const own = ownTrouble(resource, counts);
  const worst = own ? "failed" : (gateways[0]?.standing ?? "waiting");
  return { resource, gateways, counts, own, worst, word: own ? "Problem" : (gateways[0]?.word ?? "Waiting") };
}

/** Whether the resource has a problem that none of its gateways shows, such as an unreachable source. */
function ownTrouble(resource, counts) {
  const asked = isHeldByGuard(resource.reason) && waitsForApproval(resource);
  return resource.ready === "False" && !counts.failed && !asked && !isOnItsWay(resource.reason);
}

function noCounts() {
  return Object.fromEntries(STANDINGS.map((one) => [one.key, 0]));
}

/** The counts of the whole fleet. */
export function total(all) {
  const sum = { gateways: 0, resources: 0, troubled: 0, counts: noCounts() };
  for (const { gateways, counts, own } of all) {
    sum.resources += 1;
    sum.gateways += gateways.length;
    if (own) sum.troubled += 1;
    for (const { key } of STANDINGS) sum.counts[key] += counts[key];
  }
  return sum;
}

export function waitsForApproval(resource) {
  return resource.approval?.state === "Pending";
}

/** The status of the whole fleet, shown by the icon of the headline. */
export function verdict(sum) {
  if (sum.troubled) return "failed";
  if (!sum.gateways) return "waiting";
  return STANDINGS.find((one) => sum.counts[one.key]).key;
}
