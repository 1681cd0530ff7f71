"""Bidirectional sync on the gateway's side: capture changes made there and send them to the controller.

local_changes   compare the files with the last sync
significance    ignore differences without meaning
capture         run the steps of one gateway, and hold its changed paths during a sync
compose         find the path in the repository and the content to propose
outbox          pack and send the change set in ConfigMaps, whole or not at all
state           what git has, what it refused, which change set is sent
holds           paths that a sync must not touch until git has the change
watch           the loop that runs these steps
"""
