"""HTTP servers that the API server, Git servers and users call: admission, receiver, dashboard and others.

    review_server        TLS, body sizes, deadlines, one handler per path
    connections          limits on the number and slowness of clients
    rate_limit           failed requests per client
    memory_budget        memory that the requests of one port share
    request_signatures   HMAC signatures and tokens of callers
    tls                  certificates of these ports

Nothing here knows the content of requests and responses.
"""
