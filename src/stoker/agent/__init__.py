"""The agent: keeps one gateway's files at a commit, as a sidecar in its pod or without a cluster.

sidecar        the process in the pod: start, informers, the controller's metadata
desired_state  turns metadata, pod and spec into the desired state of the next sync
loop           when to sync: triggers, polling, backoff
gates          conditions before a sync: maintenance window, validation webhook
sync           one sync: open the source, plan, apply, report
rollback       snapshot before a change, restore after a failure
bidirectional  changes made on the gateway, captured for Git
status, audit  the report for the controller, the log for auditors
config_maps    the keys that an agent writes into shared ConfigMaps
fetcher        a Deployment's process that fetches once for many agents
"""
