"""Bidirectional sync on the controller's side: change sets from gateways become commits and pull requests.

    types, state        values that the modules share, and what is remembered per gateway
    inbox, inbox_keys   the ConfigMaps that agents write change sets to
    guardrails          which files of a change set may go to Git. Pure
    three_way_decision  Git now, the gateway's base, the gateway now. Pure
    branch_name         the branch of a gateway. Pure
    messages            the text of commits and pull requests. Pure
    commit, rebase      one change set onto the gateway's branch
    pull_request        opened, followed, finished
    forge_access        the forge of a source, with its token
    proposal            one change set, from ConfigMap to forge
    holds               what gateways must not overwrite meanwhile. Pure
    answers             what the gateway is told. Pure
    status              conditions and status fields. Pure
    worker, step        all of it beside the reconciler, one resource at a time

Everything that comes from a gateway's pod is untrusted and checked here.
"""
