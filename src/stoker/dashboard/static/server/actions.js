// Sends orders. A button shows that its order is under way, and cannot give it twice.
import * as notices from "../page/toasts.js";
import { order } from "./api.js";

/** Only the emergency stop is tried whatever the page knows. */
function isOld() {
  return document.body.dataset.link === "lost";
}

/** What is asked of a resource, as the server wants it. */
export function of(resource, action, more = {}) {
  return { action, namespace: resource.namespace, kind: resource.kind, name: resource.name, ...more };
}

export async function give(button, body) {
  if (button.getAttribute("aria-busy") === "true") return;
  if (isOld() && body.action !== "stop") {
    notices.failed("The page is not live. What you see may be out of date, so nothing was done.");
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

/** As a sentence begins; a name keeps its own letters. */
function begun(sentence) {
  return sentence.replace(/^[a-z]+(?= )/, (word) => word[0].toUpperCase() + word.slice(1));
}
