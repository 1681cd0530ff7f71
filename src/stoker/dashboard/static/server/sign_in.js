// The sign-in form. A token in the URL is removed from it before anything else happens, so it stays in no
// history, no bookmark and no screenshot.
import { byId, put, show } from "../page/dom.js";
import * as talking from "./api.js";

const HELP = {
  cluster: {
    how: "Use a Kubernetes token of this cluster. The permissions of its account decide what you can see and do.",
    help: "Create a token that is valid for one hour:",
    command: "kubectl create token NAME --namespace NAMESPACE",
  },
  standalone: {
    how: "Use the token that Stoker printed when it was started on this machine.",
    help: "Stoker prints it as a link at startup and stores it in the data folder, readable only by its own user:",
    command: "cat DATA-FOLDER/.sync-state/dashboard-token",
  },
};

/** The token in `#token=…`, or "". */
export function tokenFromAddress() {
  const found = location.hash.match(/^#token=(.+)$/);
  if (!found) return "";
  history.replaceState(null, "", location.pathname + location.search);
  try {
    return decodeURIComponent(found[1]);
  } catch {
    return "";
  }
}

export class SigningIn {
  #entered;

  /** `entered(session)` is called after a successful sign-in. */
  constructor(entered) {
    this.#entered = entered;
    byId("sign-in-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.tryToken(byId("token").value.trim());
    });
  }

  ask(mode, why = "") {
    const { how, help, command } = HELP[mode] ?? HELP.cluster;
    put(byId("sign-in-how"), how);
    put(byId("sign-in-help"), help);
    put(byId("sign-in-command"), command);
    put(byId("sign-in-error"), why);
    show(byId("sign-in"), true);
    document.title = "Sign in · Stoker";
    byId("token").focus();
  }

  async tryToken(token) {
    if (!token) return;
    const button = byId("sign-in-form").querySelector("button[type=submit]");
    button.setAttribute("aria-busy", "true");
    put(byId("sign-in-error"), "");
    try {
      const session = await talking.signIn(token);
      byId("token").value = "";
      show(byId("sign-in"), false);
      this.#entered(session);
    } catch (trouble) {
      put(byId("sign-in-error"), trouble.message);
      byId("token").select();
    } finally {
      button.removeAttribute("aria-busy");
    }
  }
}
