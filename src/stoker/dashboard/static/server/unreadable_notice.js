// Names the kinds that the server cannot read and therefore hides: an empty place alone would not explain it.
import { byId, put, show } from "../page/dom.js";
import { listed } from "../model/format.js";

const STOP = "emergency stop";

export function drawUnseen(unseen) {
  show(byId("unseen"), unseen.length > 0);
  if (unseen.length) put(byId("unseen-text"), sentence(unseen));
}

function sentence(unseen) {
  const kinds = unseen.filter((one) => one !== STOP);
  const told = [];
  if (kinds.length) told.push(`The API server no longer tells of ${listed(kinds, 5)}: not shown until it does.`);
  if (unseen.includes(STOP)) told.push("Whether the emergency stop is on cannot be read: what is shown may be old.");
  return told.join(" ");
}
