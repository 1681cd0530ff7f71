// Messages at the edge of the page: the result of an action, or its error. An error stays until it is closed.
import { byId, icon, make } from "./dom.js";
import { bareButton, paragraph } from "./components.js";

const STAYS = 8000;

/** Shows a result in place of the previous results, which no longer matter. */
export function done(sentence) {
  for (const old of byId("notices").querySelectorAll("[role=status]")) old.remove();
  const node = notice("step", sentence, "status");
  setTimeout(() => node.remove(), STAYS);
}

export function failed(sentence) {
  notice("failed", sentence, "alert");
}

function notice(standing, sentence, role) {
  const close = bareButton("close", "Close this message", () => node.remove());
  const parts = [icon(standing), paragraph(sentence), close];
  const node = make("div", { class: "notice", role, data: { standing } }, ...parts);
  byId("notices").append(node);
  return node;
}
