"""Network interfaces that keep a Neutron informed: see docs/networking.md.

client.py    the calls, and Neutron's errors told in ours
binding.py   what Neutron is told about a port or port group of a node
vifs.py      what both interfaces share: VIFs, changed ports, ports of our own on service networks
flat.py      tenants' ports on one network with everything else
neutron.py   separate networks for each purpose
"""
