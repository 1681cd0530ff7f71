"""A kubelet whose containers are processes of this machine: probes, volumes, restarts, a pod's life."""
