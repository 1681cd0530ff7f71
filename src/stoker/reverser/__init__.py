"""The reverser: writes the state of selected cluster objects to Git as it changes, with its author.

    watch event ─▶ selection ─▶ manifest (secret_policy, sanitize, render, path)
                                                                        │
    push ◀─ commit_message ◀─ authors ◀─ writer (batch, outbox) ◀───────┘

    selection   which objects, by the users' rules
    manifest    an object as a file
    encryption  Secrets that only their recipients can read
    authors     who made a change
    watch       configuration, discovery, object watches
    writer      one worker per branch: lease, outbox, commits, push, prune
    status      conditions and Events
    export      the same once, for `stoker export`

`supervisor` starts and stops watches and workers as the configuration changes.
"""
