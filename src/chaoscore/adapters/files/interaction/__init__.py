"""The folder of JSON files as a store of the decision runtime: files are the truth, everything else is rebuilt.

``FileInteractionStore`` implements ``app.interaction_ports.InteractionStore``; peers of other makes (the original
server, its VS Code panel, its runner) work on the same folder at the same time.
"""

from chaoscore.adapters.files.interaction.settings import FolderSettings
from chaoscore.adapters.files.interaction.store import FileInteractionStore

__all__ = ["FileInteractionStore", "FolderSettings"]
