"""FedSub, the device half."""
