"""The device: ClientApp, NumPyClient and the device halves of the methods."""
