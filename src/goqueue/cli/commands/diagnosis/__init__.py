"""Commands that say what is wrong, or collect what somebody needs to find out."""
