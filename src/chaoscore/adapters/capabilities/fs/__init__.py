"""``fs.*``: files below operator-named folders. One file per capability; ``confine`` decides what may be touched."""
