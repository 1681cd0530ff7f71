"""Who changed what: asked at admission, shared among replicas, joined with the watch."""
