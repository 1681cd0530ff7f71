"""Third-party services: object stores, OCI registry, alert receivers, OTLP collector, syslog, proxy."""
