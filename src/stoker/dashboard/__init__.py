"""The dashboard: shows gateways and destinations in a browser, and lets permitted users act on them.

    server         the port and the checks that come first    request_checks  origin, host and CSRF
    routes         the API, path by path                      responses       answers with strict headers
    interfaces     what a backend must implement              view_models     the values of the API
    sessions       who is signed in                           sse             server-sent events
    static_files   the page itself                            server_tls      TLS from a folder
    versioned_store  what changed since a version that a page has seen
    metrics        the dashboard's own metrics

    standalone     the backend of `stoker sync --watch`
    cluster        the backend of a controller or a reverser

The server knows nothing of clusters or folders; a backend knows nothing of requests.
"""
