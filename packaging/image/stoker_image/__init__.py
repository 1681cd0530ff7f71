"""The container image, assembled without a container engine.

Debian packages are fetched by a lock file and laid into a root filesystem that only
exists in memory; locked wheels and our own wheel come on top; the result is written
as one layer of an OCI archive. Nothing is installed, no script of a package runs, no
right of root is needed, and an image for another processor is made the same way.

Equal inputs give equal bytes: one time stamp, one order, one owner everywhere.
"""
