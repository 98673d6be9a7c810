"""Images as people and requests hold them: opened from the header, decoded to addresses without a copy."""
