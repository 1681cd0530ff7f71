"""Questions to the world outside, beside the passes: refs, health checks, approvals."""
