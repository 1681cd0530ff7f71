"""The documentation held against the real thing: its pages, commands and manifests; stages to play on."""
