"""The dashboard's backend for the one data folder of `stoker sync --watch`.

    token_check      the local token
    pending_actions  what users asked for, until the loop's next turn: pause, stop, rollback
    observed_sync    the loop's syncs, observed; pending actions run in its turn
    view, history    what is shown now, and from before this process
    actions          what users can do

Nothing here touches the folder beside the loop: an action waits for the running sync
and is carried out in the next turn, under the folder's own lock.
"""
