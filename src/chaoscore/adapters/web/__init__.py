"""The Decision Center: server-rendered pages for the people who answer. Starlette and Jinja live here.

``chaoscore.app.center`` says what there is to see and to do; everything here is about browsers: who may come in, what
a form may send, and text that cannot become markup.
"""

from chaoscore.adapters.web.access import Access
from chaoscore.adapters.web.site import CENTER_PATH, CenterSite, front_door

__all__ = ["CENTER_PATH", "Access", "CenterSite", "front_door"]
