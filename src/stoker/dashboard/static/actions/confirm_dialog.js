// The page's only dialog: explains an action, and confirms it by a second, deliberate step.
// The browser keeps the focus inside and restores it afterwards; Escape is the same as Cancel.
import { byId, icon, make } from "../page/dom.js";
import { button } from "../page/components.js";

/**
 * Asks, and resolves to the result of `answer()`, or to null if the user cancels.
 * `body` are nodes; `danger` marks an action that is hard to undo; `shape` is the icon beside the title.
 */
export function asked({ title, body, confirm, cancel = "Cancel", danger = false, shape = "", answer = () => true }) {
  const dialog = byId("ask");
  if (dialog.open) return Promise.resolve(null);
  return new Promise((resolve) => {
    const finish = (value) => {
      dialog.onclose = null;
      dialog.close();
      dialog.replaceChildren();
      resolve(value);
    };
    const no = cancel ? button("plain", () => finish(null), cancel) : null;
    const yes = make("button", { type: "submit", class: danger ? "main danger" : "main" }, confirm);
    const submit = (event) => {
      event.preventDefault();
      finish(answer());
    };
    const form = make("form", { method: "dialog", on: { submit } },
      make("h2", { id: "ask-title" }, shape ? icon(shape) : null, title),
      make("div", { class: "body" }, ...body),
      make("div", { class: "buttons" }, no, yes));
    dialog.className = danger ? "ask danger" : "ask";
    dialog.replaceChildren(form);
    dialog.onclose = () => finish(null);
    dialog.showModal();
    (no ?? yes).focus();
  });
}
