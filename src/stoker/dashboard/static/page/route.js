// The open side panel as the fragment of the URL: a user can send it as a link, and Back closes the panel.

export function routeTo({ namespace, kind, name }, gateway = "") {
  const parts = [gateway ? "gateway" : "resource", namespace, kind, name];
  if (gateway) parts.push(gateway);
  return `#${parts.map(encodeURIComponent).join("/")}`;
}

/** The { id, gateway } that the URL's fragment names, or null. */
export function routed() {
  const parts = location.hash.slice(1).split("/");
  const wanted = { gateway: 5, resource: 4 }[parts[0]];
  if (parts.length !== wanted) return null;
  try {
    const [, namespace, kind, name, gateway = ""] = parts.map(decodeURIComponent);
    return { id: `${namespace}/${kind}/${name}`, gateway };
  } catch {
    return null;
  }
}

export function leaveRoute() {
  history.pushState(null, "", location.pathname + location.search);
}
