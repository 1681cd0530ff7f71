"""The dashboard's backend for the one data folder of `stoker sync --watch`.

    token_check      the local token
    pending_actions  requested actions until the loop's next iteration: pause, stop, rollback
    sync_observer    shows the loop's syncs, and performs a pending rollback in place of one
    view, history    the current view, and the history from before this process
    actions          what users can do
    setup            all of that wired together

Nothing here changes the folder in parallel to the loop: an action waits for the running sync and is
performed in the loop's next iteration, under the folder's own lock.
"""
