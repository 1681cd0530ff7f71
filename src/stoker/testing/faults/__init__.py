"""What goes wrong: processes that die at a named place, bad networks and disks; and who watches."""
