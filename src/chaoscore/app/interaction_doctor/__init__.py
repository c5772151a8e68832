"""The doctor of the human-decision folder: looks at everything, changes nothing, says what to do.

The command line stands above; the ``Evidence`` port, which reads the folder, below. Everything is read once, so that
the cost grows with the folder and no faster; a file that is broken is a finding, and the rest is examined all the same.
"""

from chaoscore.app.interaction_doctor.evidence import Evidence
from chaoscore.app.interaction_doctor.examine import DoctorOptions, examine
from chaoscore.app.interaction_doctor.report import Finding, Report

__all__ = ["DoctorOptions", "Evidence", "Finding", "Report", "examine"]
