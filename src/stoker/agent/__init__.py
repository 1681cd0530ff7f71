"""The agent: keeps one gateway's files at a commit, as a sidecar in its pod or without a cluster.

sidecar        the process in the pod: start, informers, what the controller's metadata asks for
desired_state  metadata, pod and spec to the next sync
loop           when to sync: triggers, polling, backoff
gates          what a sync waits for: maintenance window, validation webhook
sync           one sync: open the source, plan, apply, report
rollback       snapshot before a change, restore after a failure
bidirectional  changes made on the gateway, captured for Git
status, audit  what the controller and auditors read
fetcher        a Deployment's process that fetches once for many agents
"""
