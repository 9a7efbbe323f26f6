"""Devices that speak to a SuperLink over gRPC themselves: nothing of ours, no client of Flower's.

Only Flower's generated messages, which are its wire, are used beside gRPC and a key's signature.
"""
