"""``http.request``: GET with every guard of spec §6. ``request`` is the capability, the other modules its parts."""
