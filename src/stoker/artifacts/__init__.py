"""Sources other than git: OCI artifacts from a registry, and objects from an S3 bucket."""
