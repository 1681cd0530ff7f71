"""The dashboard's backend in a cluster: what it shows, who may see it, and who may act.

    kinds, object_header  the kinds that are watched, and the metadata kept of them
    resources             a Stoker or IgnitionSync as the page shows it
    history               past syncs of its gateways
    destinations, rules   a GitDestination and its rules as the page shows them
    emergency_stop        the emergency stop
    staleness             what can no longer be read
    watches, view         lists and watches, and the view built from them
    permissions           what a visitor may see and do
    access_review         SubjectAccessReview for a visitor
    authenticator         who a visitor is, by TokenReview
    actions               what is done, with the visitor's own token
    server                all of that as part of a process

The dashboard's own account only reads: nothing is ever written with it.
"""
