"""What people ask of resources in a cluster and read of them, whether in a terminal or in a browser.

Functions over a client of the API server, each in the name of whoever the client is: nothing here
knows options, tables or pages, and nothing is written that `kubectl` could not write.
"""
