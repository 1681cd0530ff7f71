"""A kubelet whose containers are local processes: pod lifecycle, volumes, probes, image pulls."""
