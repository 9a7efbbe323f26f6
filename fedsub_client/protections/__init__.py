"""How a device protects what it sends: under masks, of which a server opens nothing but a sum."""
