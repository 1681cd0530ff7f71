"""The dashboard: what people see of gateways and destinations, and do to them, in a browser.

    seams        what a place must have to be shown      pictures   the values of the API
    server       the port, and what is looked at first   guarding   where a request comes from
    answering    the API, path by path                   replies    answers with strict headers
    sessions     who is signed in                        streaming  events for as long as somebody reads
    static_files the page itself                         securing   TLS from a folder
    metering     what it measures of itself
    versions     which values changed since a number that a page remembers

    standalone   the place that `stoker sync --watch` keeps
    clusters     the place that a controller or a reverser looks at

The server knows nothing of clusters or folders; a scene knows nothing of requests.
"""
