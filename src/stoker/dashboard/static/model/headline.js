// The headline: one sentence about everything on the page, with an icon and a second line.
// A page shows a single gateway, a fleet, destinations only, or nothing yet; each has its own sentences.
import * as destined from "./destination_status.js";
import { total, verdict, waitsForApproval } from "./gateway_status.js";
import { loneOf } from "../fleet/single_gateway.js";
import { counted, figure, shortCommit } from "./format.js";

const APPROVAL = "The plan is shown above. Nothing is changed until a user approves it.";
const UNTIL = "The ref is not followed until a user resumes it.";
const NOTHING = { standing: "waiting", sentence: "No resources yet", more: "" };
/** The gateway itself keeps running when a sync fails, so the sentence says that the sync failed. */
const LONE = {
  failed: (name) => `Syncing ${name} failed`,
  drifted: (name) => `${name} drifted from git`,
  held: (name) => `${name} is open in a Designer`,
  waiting: (name) => `${name} is waiting`,
  syncing: (name) => `${name} is syncing`,
  step: (name) => `${name} is in sync`,
};

/** { about, standing, sentence, more, troubles, sum } of the store. */
export function verdictOf(holding) {
  const sum = total(holding.resources.values());
  const written = destined.counts(holding.destinations.values());
  const troubles = sum.counts.failed + sum.troubled + written.counts.failed;
  const lone = loneOf(holding);
  if (lone) return { about: "lone", ...ofLone(lone, holding.stop.active), troubles, sum };
  if (sum.resources) return { about: "fleet", ...ofFleet(sum, written), troubles, sum };
  if (!written.all) return { about: "nothing", ...NOTHING, troubles, sum };
  return { about: "destinations", ...ofDestinations(written), troubles, sum };
}

function ofDestinations(written) {
  return { standing: destined.verdict(written), sentence: destined.sentence(written), more: destined.more(written) };
}

/** Failed destinations are the headline only if no gateway failed; otherwise their own section shows them. */
function ofFleet(sum, written) {
  const standing = verdict(sum);
  if (standing === "failed" || !written.counts.failed) return { standing, sentence: sentence(sum), more: more(sum) };
  return { ...ofDestinations(written), more: `${sentence(sum)}, ${more(sum)}` };
}

/** The headline, short enough to read from across a room. */
function sentence(sum) {
  const { counts } = sum;
  const problems = sum.troubled ? counted(sum.troubled, "resource has a problem", "resources have a problem") : "";
  if (counts.failed) return `${counted(counts.failed, "gateway")} failed${problems ? `, ${problems}` : ""}`;
  if (problems) return problems;
  if (!sum.gateways) return "No gateways yet";
  if (counts.drifted) return `${counted(counts.drifted, "gateway")} drifted from git`;
  if (counts.held) return `${counted(counts.held, "gateway")} open in a Designer`;
  if (counts.waiting) return `${counted(counts.waiting, "gateway")} waiting, none failed`;
  if (counts.syncing) return `${counted(counts.syncing, "gateway")} syncing, none failed`;
  return sum.gateways === 1 ? "The gateway is in sync" : `All ${counted(sum.gateways, "gateway")} are in sync`;
}

function more(sum) {
  if (!sum.gateways) return "";
  const all = sum.counts.step === sum.gateways && !sum.troubled;
  const resources = counted(sum.resources, "resource");
  const part = `${figure(sum.counts.step)} of ${counted(sum.gateways, "gateway")} in sync`;
  return all ? `${resources}, all at the commit in git` : `${part}, ${resources}`;
}

/** A stopped or paused gateway is shown as that, because its state is not compared with git meanwhile. */
function ofLone({ resource, gateways: [{ gateway, standing }] }, stopped) {
  const { name, ref, commit } = gateway;
  const has = commit ? `Last delivered: ${ref} ${shortCommit(commit)}.` : "Never synced.";
  if (stopped) return { standing: calm(standing), sentence: `Syncing ${name} is stopped`, more: has };
  if (waitsForApproval(resource)) {
    return { standing: "waiting", sentence: `${name} is waiting for approval`, more: APPROVAL };
  }
  if (standing === "failed") {
    return { standing, sentence: LONE.failed(name), more: `${has} Stoker retries automatically.` };
  }
  if (resource.paused) {
    return { standing: calm(standing), sentence: `Syncing ${name} is paused`, more: `${UNTIL} ${has}` };
  }
  if (gateway.takenBack) return { standing, sentence: `${name} was rolled back`, more: has };
  const sentence = LONE[standing](name);
  if (standing === "step") return { standing, sentence, more: `At ${ref} ${shortCommit(commit)}.` };
  return { standing, sentence, more: commit || gateway.reason ? has : "The first sync has not finished yet." };
}

function calm(standing) {
  return standing === "failed" || standing === "drifted" ? standing : "waiting";
}

/** The title of the browser tab. */
export function title({ sentence: told, troubles }, stopped) {
  if (stopped) return "STOPPED · Stoker";
  return troubles ? `(${troubles}) ${told} · Stoker` : `${told} · Stoker`;
}
