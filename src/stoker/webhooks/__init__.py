"""What others call: the API server before it stores an object, and git servers after a push.

Admission (`stoker webhook`, port 9443) puts agents into pods, judges resources and
converts them:

    reviews     the wire of both reviews   ─►  answering  which question is it
    admitting   what becomes of a pod          looking_up what else has to be known
    injecting   pod and resource to a patch    validating resource to a verdict
    converting  one version to another

Each answer is made by a function without I/O of what was asked and what was looked
up. The port itself and its certificate are `stoker.http_server.tls`.

The receiver (`POST /webhook/…`, port 8443 of every controller) takes calls of forges and
pipelines and writes annotations:

    receiving   the steps of a request     ─►  believing    whose keys the caller knows
    payloads    what is asked (bodies: JSON)   deciding     what it means to a resource
    coalescing  one write for many equal       annotating   the write itself
    knowing     what exists, keyring: keys     answering_calls  words, statuses, counts

How many may connect, and who is still heard, is `stoker.http_server.tls` as well.
"""
