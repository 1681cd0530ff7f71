// The fleet in one sentence, one bar and one line of counts; a count is also the button that shows only those.
import { STANDINGS, total, verdict } from "./judging.js";
import { byId, icon, make, put, show } from "./making.js";
import { button } from "./pieces.js";
import { setStanding } from "./rows.js";
import { counted, figure } from "./words.js";

export class Tally {
  #buttons = new Map();
  #shares = new Map();

  /** `choose(standing)` is called with the one that was pressed, or "" where it was let go. */
  constructor(choose) {
    byId("verdict-icon").append(icon("waiting", "huge"));
    for (const { key, many } of STANDINGS) {
      const number = make("b");
      const node = button("", () => choose(this.#pressed(key) ? "" : key), icon(key), number, make("span", {}, many));
      node.dataset.standing = key;
      node.setAttribute("aria-pressed", "false");
      this.#buttons.set(key, { node, number });
      const share = make("span", { data: { standing: key } });
      this.#shares.set(key, share);
    }
    byId("tally").append(...[...this.#buttons.values()].map(({ node }) => node));
    byId("share").append(...this.#shares.values());
  }

  draw(holding) {
    const sum = total(holding.resources.values());
    for (const { key } of STANDINGS) {
      const { node, number } = this.#buttons.get(key);
      put(number, figure(sum.counts[key]));
      node.classList.toggle("none", !sum.counts[key]);
      this.#shares.get(key).style.flexGrow = sum.counts[key];
      show(this.#shares.get(key), sum.counts[key] > 0);
    }
    const standing = verdict(sum);
    setStanding(byId("verdict-icon"), standing);
    put(byId("fleet-title"), sentence(sum));
    put(byId("verdict-more"), more(sum));
    return sum;
  }

  choose(standing) {
    for (const [key, { node }] of this.#buttons) node.setAttribute("aria-pressed", String(key === standing));
  }

  #pressed(key) {
    return this.#buttons.get(key).node.getAttribute("aria-pressed") === "true";
  }
}

/** What somebody across the room should read. */
export function sentence(sum) {
  const { counts } = sum;
  const problems = sum.troubled ? counted(sum.troubled, "resource has a problem", "resources have a problem") : "";
  if (counts.failed) return `${counted(counts.failed, "gateway")} failed${problems ? `, ${problems}` : ""}`;
  if (problems) return problems;
  if (!sum.resources) return "Nothing to see yet";
  if (!sum.gateways) return "No gateways yet";
  if (counts.drifted) return `${counted(counts.drifted, "gateway")} drifted from git`;
  if (counts.held) return `${counted(counts.held, "gateway")} held by designers`;
  if (counts.waiting) return `${counted(counts.waiting, "gateway")} waiting, none failed`;
  if (counts.syncing) return `${counted(counts.syncing, "gateway")} syncing, none failed`;
  return sum.gateways === 1 ? "The gateway is in step" : `All ${counted(sum.gateways, "gateway")} are in step`;
}

function more(sum) {
  if (!sum.gateways) return "";
  const all = sum.counts.step === sum.gateways && !sum.troubled;
  const resources = counted(sum.resources, "resource");
  const part = `${figure(sum.counts.step)} of ${counted(sum.gateways, "gateway")} in step`;
  return all ? `${resources}, all with what git says` : `${part}, ${resources}`;
}

/** What the tab says, and what a wall of tabs shows. */
export function title(sum, stopped) {
  if (stopped) return "STOPPED · Stoker";
  const count = sum.counts.failed + sum.troubled;
  return count ? `(${count}) ${sentence(sum)} · Stoker` : `${sentence(sum)} · Stoker`;
}
