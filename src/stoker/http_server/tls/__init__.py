"""Certificates of the HTTP ports: issued by our own CA and shared by all replicas, or read from files.

certificate_authority  our own CA and certificates    rotation   when each is renewed
secret     the Secret that all replicas serve from    ca_bundle  the CA in webhook configurations
files      a certificate that the user provides       context    the TLS context of a listening port
setup      selects self-signed or files               mutual     TLS between replicas
"""
