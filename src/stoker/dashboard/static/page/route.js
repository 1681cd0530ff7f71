// What is open on the side, as the end of the address: it can be sent to somebody, and Back closes it.

export function routeTo({ namespace, kind, name }, gateway = "") {
  const parts = [gateway ? "gateway" : "resource", namespace, kind, name];
  if (gateway) parts.push(gateway);
  return `#${parts.map(encodeURIComponent).join("/")}`;
}

/** { id, gateway } of what the address names, or null. */
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
