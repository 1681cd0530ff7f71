"""The dashboard's backend in a cluster: its view, its authentication and its actions.

kinds, object_header  the kinds that are watched, and the metadata kept of them
resources             a Stoker or IgnitionSync as the page shows it
history               past syncs of its gateways
destinations, rules   a GitDestination and its rules as the page shows them
emergency_stop        the emergency stop
    staleness             kinds that can no longer be read
    watches, view         lists and watches, and the view built from them
    permissions           what a visitor may see and do
    access_review         TokenReview and SubjectAccessReview requests
    authenticator         identity and visible scope of a visitor, with a cache
    actions               actions, performed with the visitor's own token
    server                the whole dashboard as a task of a process

The dashboard's own service account only reads: the dashboard never writes with it.
"""
