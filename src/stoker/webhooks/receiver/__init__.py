"""The receiver: writes a push event or a pipeline's call as annotations on the resources it concerns.

receiver    the steps of a request               caller_auth  authenticates the caller
payloads    the request (json_body: bounds)      decide       what it means for a resource
coalesce    one write for many equal requests    annotate     the write itself
index, keyring   resources and keys              responses    messages, status codes, counters
"""
