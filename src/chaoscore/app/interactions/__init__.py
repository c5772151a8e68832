"""The human-decision runtime as a service: ``InteractionService`` has one method per operation.

Transports (MCP, CLI, web) stand above and add nothing; the store behind ``interaction_ports`` stands below.
"""

from chaoscore.app.interactions.service import InteractionService

__all__ = ["InteractionService"]
