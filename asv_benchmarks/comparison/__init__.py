"""What ``ratios.py`` is made of: the peers, the clock, and the report."""
