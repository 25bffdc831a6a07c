"""Durable, undoable, visible work: the saga layer on DBOS. No flow lives here.

flow.py      how a flow is declared
engine.py    starts flows, waits for them, repairs them; one per process
runner.py    one execution of one flow: forward, backward, the fence
recovery.py  signs of life, and taking over from the dead
records.py   what operators see
journal.py   the settings of DBOS
faults.py    where tests make things go wrong
"""
