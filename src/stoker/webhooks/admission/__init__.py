"""Admission: injects agents into pods, validates resources, converts CRD versions.

    process      `stoker webhook`                    routes    a handler for each path
    reviews      decode and encode both reviews      lookups   other objects that a review needs
    pod_review   reviews a pod                       validate  reviews a resource
    inject       pod and resource to a patch         crd_conversion  one version to another

Functions without I/O build each response from the request and the objects that were looked up.
"""
