"""The receiver: a push event or a pipeline's call becomes an annotation on the resources it concerns.

receiver    the steps of a request               caller_auth  whose key the caller has
payloads    what is asked (json_body: bounds)    decide       what it means for a resource
coalesce    one write for many equal events      annotate     the write itself
index, keyring   resources and keys              responses    messages, status codes, counters
"""
