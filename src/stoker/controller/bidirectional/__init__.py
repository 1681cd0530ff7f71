"""The way back: what people changed on gateways becomes commits and pull requests.

    values      what is handed from one to the other
    parcels     which sets of changes lie in the maps, by the names of their keys
    postbox     the maps themselves: made, read, emptied
    judging     which files of a set may go to git at all. Pure
    comparing   three ways: what git has, what the gateway began with, what it has now. Pure
    naming      the branch of a gateway. Pure
    wording     what commits and pull requests say. Pure
    recording   one set, onto the branch of its gateway
    requesting  the pull request of a branch: opened, followed, over
    holding     what gateways must not overwrite, within what a map can carry. Pure
    outcomes    what a gateway is answered. Pure
    carrying    one set from the maps to git and to its forge
    accepting   all of it beside the passes, one resource at a time
    standing    how it stands, as the status and the conditions say it. Pure
    forging     the forge of a source, with its token
    stepping    all of it as steps of a pass

Everything that comes from a gateway's pod is judged here, and believed in nothing.
"""
