"""A port that the API server calls, and the certificate that it is called by.

    server        TLS, sizes, deadlines, one handler per path
    certificates  an authority and its certificates as bytes    rotating   when which is renewed
    keeping       the Secret that all replicas serve from       trusting   who is told whom to trust
    certificate_files   somebody else's certificate             presenting what who connects is shown
    certifying    either way as parts of a process              mutual     replicas among themselves

Admission (`stoker.webhooks`) and author capture (`stoker.reverser`) both stand on this.
Nothing here knows what is asked or answered.
"""
