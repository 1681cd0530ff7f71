"""Bidirectional sync on the gateway's side: capture changes made there and send them to the controller.

local_changes   compare the files with what the last sync wrote
significance    ignore differences without meaning
capture         find the path in the repository and the content to propose
compose         put the change set together
outbox_packing, outbox_sender   into ConfigMaps, whole or not at all
state           what Git has, what it refused, what is on its way
holds           paths that a sync must not touch until Git has the change
watch           the loop that runs these steps
"""
