"""The dashboard: shows gateways and destinations in a browser, and lets permitted users act on them.

        server         the port and the first checks              request_checks  origin, host and CSRF
        routes         the API, path by path                      responses       HTTP with strict headers
        interfaces     what a backend must implement              view_models     the values of the API
        sessions       signed-in users                            sse             server-sent events
        static_files   the files of the page                      server_tls      TLS from a folder
        versioned_store  values by id, with the changes since a version
        event_cache    events that are encoded once and sent to many streams
        metrics        the dashboard's own metrics
        keep_serving   restarts the dashboard after a failure

    standalone     the backend of `stoker sync --watch`
    cluster        the backend of a controller or a reverser

The server knows nothing of clusters or folders; a backend knows nothing of requests.
"""
