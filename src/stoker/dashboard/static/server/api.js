// Calls the server's API. Every URL is relative and of this origin; changing requests carry the CSRF token.

let csrf = "";

/** A request that was refused or failed, with a sentence for the user. */
export class Trouble extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

async function ask(path, { method = "GET", body = null, seconds = 20 } = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-Stoker-CSRF"] = csrf;
  if (body !== null) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method, headers, body: body === null ? null : JSON.stringify(body),
      credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(seconds * 1000),
    });
  } catch {
    throw new Trouble("The server did not answer. Check whether the request took effect before you try again.");
  }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Trouble(said.error || `The server answered ${answer.status}.`, answer.status);
  return said;
}

function remembered(session) {
  if (session.csrf) csrf = session.csrf;
  return session;
}

export async function session(seconds = 20) {
  return remembered(await ask("api/session", { seconds }));
}

export async function signIn(token) {
  return remembered(await ask("api/session", { method: "POST", body: { token } }));
}

export async function signOut() {
  await ask("api/session", { method: "DELETE" });
}

export async function picture() {
  return ask("api/picture");
}

export async function pastOf({ namespace, kind, name }, gateway) {
  const path = [namespace, kind, name, gateway].map(encodeURIComponent).join("/");
  return ask(`api/gateways/${path}`);
}

/** Performs an action and returns a sentence about the result. */
export async function order(body) {
  return (await ask("api/actions", { method: "POST", body })).message;
}
