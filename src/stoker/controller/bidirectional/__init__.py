"""Bidirectional sync in the controller: change sets from gateways become commits and pull requests.

    types, state        values that the modules share, and the state kept for each resource
    inbox               the ConfigMaps that agents write change sets to
    guardrails          which files of a change set may go to Git. Pure
    three_way_decision  Git now, the gateway's base, the gateway now. Pure
    branch_name         the branch of a gateway. Pure
    messages            the text of commits and pull requests. Pure
    commit, rebase      commit a change set to the gateway's branch
    pull_request        open, update and check the pull request
    forge_access        the forge of a source, with its token
    proposal            one change set, from ConfigMap to forge
    holds               files that syncs must not overwrite during a review. Pure
    answers             the reply to the gateway. Pure
    status              conditions and status fields. Pure
    worker, step        runs all of it in the background of reconciles

Everything that comes from a gateway's pod is untrusted and checked here.
"""
