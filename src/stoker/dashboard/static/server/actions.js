// Sends actions. A button shows that its action is in progress, and cannot be pressed twice.
import * as notices from "../page/toasts.js";
import { order } from "./api.js";

/** Whether the page is out of date; then only the emergency stop is still sent. */
function isOld() {
  return document.body.dataset.link === "lost";
}

/** The body of an action on a resource. */
export function of(resource, action, more = {}) {
  return { action, namespace: resource.namespace, kind: resource.kind, name: resource.name, ...more };
}

export async function give(button, body) {
  if (button.getAttribute("aria-busy") === "true") return;
  if (isOld() && body.action !== "stop") {
    notices.failed("Nothing was done: the page is not connected and may be out of date.");
    return;
  }
  button.setAttribute("aria-busy", "true");
  try {
    notices.done(begun(await order(body)));
  } catch (trouble) {
    notices.failed(trouble.message);
  } finally {
    button.removeAttribute("aria-busy");
  }
}

/** Capitalizes the first word of a sentence, unless it is a name. */
function begun(sentence) {
  return sentence.replace(/^[a-z]+(?= )/, (word) => word[0].toUpperCase() + word.slice(1));
}
