"""The place that a controller or a reverser looks at: what it shows, who may see it, and who may act.

    kinds         what is looked at
    resources     a Stoker or IgnitionSync as a page shows it
    histories     what its gateways have been through, kept small
    destinations  a GitDestination as a page shows it
    stopping      the emergency stop
    blindness     what can no longer be read
    watches       the lists and watches behind the scene
    scene         all of them, kept as the cluster is
    rights        how far a visitor sees and reaches
    asking        what is asked of the API server about a visitor
    gate          who a visitor is, by TokenReview and SubjectAccessReview
    hands         what is done, with the visitor's own token
    serving       all of that behind a port, as a part of a process

The dashboard's own account only reads: nothing is ever written with it.
"""
