"""HTTP ports that the API server, forges and users call: admission, receiver, author capture, dashboard.

    review_server        TLS, body sizes, deadlines, one handler per path
    connections          how many clients, and how slow they may be
    rate_limit           requests per client
    request_signatures   HMAC signatures and tokens of callers
    tls                  certificates of these ports

Nothing here knows what is asked or answered.
"""
