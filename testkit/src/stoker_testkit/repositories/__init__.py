"""Git repositories (bare, malicious, a sample Ignition project) and servers over HTTP and SSH."""
