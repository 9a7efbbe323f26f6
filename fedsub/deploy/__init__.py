"""Deployments on SuperLink and SuperNodes: certificates, keys, a rehearsal on one machine."""
