"""The gateway's side of the way back: what somebody changes there goes to git, and is not lost before.

seeing       what lies there, against what we wrote
telling      which differences mean something
composing    where in the repository it belongs, and with which content
sending      into the maps, whole or not at all
remembering  what git has, what it does not take, what is on its way
holding      what a pass must not touch meanwhile
capturing    one step after the other, and the loop that takes them
"""
