"""On the PYTHONPATH of a broker: its event loop is watched every 5 ms. Operators need every 100.

What holds the loop for 50 ms is seen as 45 and more then, and not as whatever a timer meets of it.
"""

from goqueue.runtime.pauses import LoopWatch

LoopWatch.__init__.__defaults__ = (0.005,)
