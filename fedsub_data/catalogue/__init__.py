"""The data sets that FedSub knows: their cards, and fetching their official files."""
