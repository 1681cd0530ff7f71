// Where the cluster is written to in git: the last commits, who made the changes, and how far behind it is.
import { byId, icon, make, show } from "./making.js";
import { commit, facts, pill, quiet } from "./pieces.js";
import { moment, secondsSince } from "./ticking.js";
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
    const [word] = standing(destination);
    if (old?.destination === destination && old.word === word) return old.node;
    const node = card(destination);
    this.#cards.set(destination.id, { destination, word, node });
    return node;
  }
}

/** [standing, word, sentence] of a destination. */
export function standing(destination) {
  const { pending, pendingSince, ready } = destination;
  const why = destination.message || (destination.reason ? spelled(destination.reason) : "");
  if (destination.suspended) return ["waiting", "Suspended", "Nothing is written until somebody lets it go on."];
  if (ready === "False") return ["failed", "Failed", why];
  const late = pendingSince && secondsSince(pendingSince) > LATE;
  if (pending && late) return ["drifted", "Behind", "Changes have not got into git for a while."];
  if (pending) return ["syncing", "Writing", "Changes are on their way to git."];
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
      ["Not in git yet", waiting(one)],
      ["Lag", one.lagSeconds === null ? "" : `${lag(one.lagSeconds)} for the last change`],
      ["Changes by", listed(one.authors, 4)],
    ]),
    recent(one));
}

/** What waits, and for how long the first of it has. */
function waiting({ pending, pendingSince }) {
  if (!pending) return "";
  const long = pendingSince ? [", the oldest for ", moment(pendingSince, "lasted")] : [];
  return make("span", {}, counted(pending, "change"), ...long);
}

function lag(seconds) {
  return seconds < 1 ? "less than 1 s" : span(seconds);
}

function recent(one) {
  if (!one.recent.length) return "";
  const entries = one.recent.map(({ commit: id, subject, author, at }) => make("li", {},
    commit(id), make("span", { class: "subject" }, subject), quiet(`${author} `, moment(at))));
  return make("ol", { class: "recent", "aria-label": `Last commits to ${one.name}` }, ...entries);
}
