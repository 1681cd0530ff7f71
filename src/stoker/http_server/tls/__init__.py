"""Ports that the API server, forges and people call, and the certificate that they see.

    server        TLS, sizes, deadlines, one handler per path
    certificates  an authority and its certificates as bytes    rotating   when which is renewed
    keeping       the Secret that all replicas serve from       trusting   who is told whom to trust
    certificate_files   somebody else's certificate             presenting what who connects is shown
    certifying    either way as parts of a process              mutual     replicas among themselves
    connections   how many strangers, and how slow              limiting   who is still heard

Admission and the receiver (`stoker.webhooks`), author capture (`stoker.reverser`) and the
dashboard (`stoker.dashboard`) stand on this. Nothing here knows what is asked or answered.
"""
