// Where the cluster is written to in git: the last commits, who made the changes, and how far behind it is.
import { byId, icon, make, show } from "./making.js";
import { commit, facts, pill, quiet } from "./pieces.js";
import { moment } from "./ticking.js";
import { counted, listed, span, spelled } from "./words.js";

const LATE = 60;

export class Destinations {
  #cards = new Map();

  draw(holding) {
    const all = [...holding.destinations.values()].sort((a, b) => rank(a) - rank(b) || a.id.localeCompare(b.id));
    show(byId("destinations"), all.length > 0);
    show(byId("to-destinations"), all.length > 0);
    const nodes = all.map((one) => this.#card(one));
    for (const id of this.#cards.keys()) if (!holding.destinations.has(id)) this.#cards.delete(id);
    const place = byId("destination-cards");
    const same = nodes.length === place.children.length && nodes.every((node, index) => place.children[index] === node);
    if (!same) place.replaceChildren(...nodes);
  }

  #card(destination) {
    const old = this.#cards.get(destination.id);
    if (old?.destination === destination) return old.node;
    const node = card(destination);
    this.#cards.set(destination.id, { destination, node });
    return node;
  }
}

/** [standing, word, sentence] of a destination. */
export function standing(destination) {
  const { pending, lagSeconds, ready } = destination;
  const why = destination.message || (destination.reason ? spelled(destination.reason) : "");
  const changes = counted(pending, "change");
  if (destination.suspended) return ["waiting", "Suspended", "Nothing is written until somebody lets it go on."];
  if (ready === "False") return ["failed", "Failed", why];
  const late = `${changes} not yet in git, the oldest for ${span(lagSeconds ?? 0)}.`;
  if (pending && lagSeconds > LATE) return ["drifted", "Behind", late];
  if (pending) return ["syncing", "Writing", `${changes} on the way to git.`];
  if (ready !== "True") return ["waiting", "Waiting", why];
  return ["step", "Up to date", "All changes that are known are in git."];
}

function rank(destination) {
  return ["failed", "drifted", "waiting", "syncing", "step"].indexOf(standing(destination)[0]);
}

function card(one) {
  const [state, word, sentence] = standing(one);
  const where = [one.repo, one.branch, one.folder && `${one.folder}/`].filter(Boolean).join(" · ");
  return make("article", { class: "card destination", data: { id: one.id, standing: state } },
    make("h3", {}, pill(state, word), one.name, quiet(`in ${one.namespace}`)),
    make("p", { class: "lead" }, sentence),
    make("p", { class: "quiet where" }, icon("branch"), where),
    facts([
      ["Last commit", one.commit ? make("span", {}, commit(one.commit), " ", moment(one.committedAt)) : "none yet"],
      ["Lag", lag(one)],
      ["Changes by", listed(one.authors, 4) || "nobody yet"],
    ]),
    recent(one));
}

/** While changes wait, how long the oldest has; otherwise how long the last one took. */
function lag({ lagSeconds, pending }) {
  if (lagSeconds === null) return "not known";
  const long = lagSeconds < 1 ? "less than 1 s" : span(lagSeconds);
  return pending ? long : `${long} for the last change`;
}

function recent(one) {
  if (!one.recent.length) return make("p", { class: "quiet" }, "No commit yet.");
  const entries = one.recent.map(({ commit: id, subject, author, at }) => make("li", {},
    commit(id), make("span", { class: "subject" }, subject), quiet(`${author} `, moment(at))));
  return make("ol", { class: "recent", "aria-label": `Last commits to ${one.name}` }, ...entries);
}
