// Messages at the edge of the page: what was done, or why it was not. What failed stays until it is closed.
import { byId, icon, make } from "./dom.js";
import { bareButton, paragraph } from "./components.js";

const STAYS = 8000;

/** The newest is the one that counts: what was done before it no longer needs to be read. */
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
