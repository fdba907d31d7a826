"""pktgen from Python: runs experiments, reads their files, compares and analyses. docs/python.md has an example of each function.

Every number is computed by the binary; this package calls it and reads its Parquet and JSON files.
"""

from importlib.metadata import PackageNotFoundError, version

from ._analysis import Analysis, analyze
from ._compare import Comparison, compare
from ._control import Control, ControlEvent, ControlState
from ._errors import HostError, InvalidRunError, InvalidRunWarning, PktgenError, PktgenWarning, UsageError
from ._keys import codes, configs, explain, settings
from ._sweep import Run, Sweep, Verdict, open, query, run
from ._tool import Note, binary

try:
    __version__ = version("pktgen")
except PackageNotFoundError:  # from a source tree
    __version__ = "0"

__all__ = [
    "Analysis", "Comparison", "Control", "ControlEvent", "ControlState", "HostError", "InvalidRunError", "InvalidRunWarning",
    "Note", "PktgenError", "PktgenWarning", "Run", "Sweep", "UsageError", "Verdict", "analyze", "binary", "codes", "compare",
    "configs", "explain", "open", "query", "run", "settings",
]
