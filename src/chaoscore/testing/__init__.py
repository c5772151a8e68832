"""For whoever writes an adapter: the contracts of the ports as tests, fakes for what may not vary, a fault injector.

The product never imports this. ``contracts`` holds one class of tests per port; a subclass says how to open it.
"""
