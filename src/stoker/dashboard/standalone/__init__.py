"""The one data folder that `stoker sync --watch` keeps, as a place of the dashboard.

    gate      the local token, and who brings it
    desk      what people want, until the watcher's next turn: paused, stopped, a way back
    keeping   the watcher's passes, seen; what lies on the desk is done in its turn
    scene     what can be seen           past   what happened before this process
    hands     what can be done

Nothing here touches the folder beside the watcher: an order waits for the pass that
runs, and is done in the next turn, under the folder's own lock.
"""
