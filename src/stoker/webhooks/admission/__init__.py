"""Admission: injects agents into pods, validates resources, converts CRD versions.

    reviews      decode and encode of both reviews   routes    which handler answers
    pod_review   what happens to a pod               lookups   other objects it needs
    inject       pod and resource to a patch         validate  resource to a verdict
    crd_conversion  one version to another

Each answer is made by a function without I/O from the request and what was looked up.
"""
