"""The reverser: write the state of selected cluster objects to Git as it changes, with its author.

    watch event ─▶ selection ─▶ manifest (secret_policy, sanitize, render, path)
                                                                        │
    push ◀─ commit_message ◀─ authors ◀─ writer (batch, outbox) ◀───────┘

    selection   which objects are written, by the users' rules
    manifest    an object as a file
    encryption  Secrets that only their recipients can decrypt
    authors     the user who made a change
    watch       configuration, discovery, object watches
    writer      one worker per branch: lease, outbox, commits, push, prune
    status      conditions and Events
    export      one run of the same steps, for `stoker export`

`process` is the entry point. `supervisor` starts and stops watches and workers as the configuration changes.
`destinations` decides which GitDestinations can be written.
"""
