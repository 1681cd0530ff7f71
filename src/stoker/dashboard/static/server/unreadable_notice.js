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
  if (kinds.length) told.push(`Cannot watch ${listed(kinds, 5)} on the API server: hidden until it works again.`);
  if (unseen.includes(STOP)) told.push("Cannot read whether the emergency stop is on: this page may be out of date.");
  return told.join(" ");
}
