"""Cluster to git: the state of selected objects, who changed it and when, written as it changes.

    an event of a watch ─▶ selecting ─▶ noise, secrecy ─▶ sanitizing ─▶ rendering ─▶ placing
                                                                                      │
    a push ◀─ messages ◀─ authoring (who) ◀─ batching (which commits, and when) ◀─────┘

Everything named here decides and touches nothing: no clock, no network, no file.
The loops that watch and push live beside it and call it:

    stating (what people wrote), surveying (which kinds) ─▶ conducting ─▶ watches ─▶ noticing ─▶ outboxes
                                                                │                                  │
    git ◀─ writing: opening, delivering ◀─ working ◀─ candidates (Leases, spreading) ◀─────────────┘
                                                                └─▶ speaking, telling, reporting (statuses)

The folders: `selection` (which objects), `files` (an object as a file), `sealed` (Secrets for
recipients), `authors` (who), `watched` (what comes out of the cluster), `branches` (what goes
into git), `status` (what is told), `export` (the same once, for a person).
"""
