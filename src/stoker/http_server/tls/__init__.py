"""Certificates of the HTTP ports: issued by our own CA and shared by all replicas, or read from files.

issue      a CA and its certificates as bytes       rotation   when each is renewed
secret     the Secret that all replicas serve from  ca_bundle  the CA in webhook configurations
files      a certificate that the user provides     context    the TLS context of a listening port
setup      either way, as parts of a process        mutual     TLS between replicas
"""
