"""``json.query``: JMESPath over the outputs of steps. ``capability`` is the capability, the rest its parts."""
