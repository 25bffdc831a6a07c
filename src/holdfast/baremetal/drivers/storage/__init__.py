"""Remote volumes of machines: `external`, where somebody else attaches them, and `cinder`.

`volumes.py` holds the rules both share, `cinder_api.py` the calls to a Cinder.
"""
