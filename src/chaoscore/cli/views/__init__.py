"""How values are drawn for a person. Nothing here decides, asks or fetches."""
