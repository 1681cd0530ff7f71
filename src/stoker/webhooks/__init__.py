"""Endpoints that others call: admission reviews of the API server, and push events of Git servers.

`admission` (`stoker webhook`, port 9443) injects agents into pods, validates resources and
converts them. `receiver` (`POST /webhook/…`, port 8443 of every controller) authenticates
push events and annotates the resources they concern. Ports and certificates are
`stoker.http_server`.
"""
