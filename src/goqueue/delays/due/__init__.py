"""When delayed messages are due: the timing wheel, and slots for what is further away."""
