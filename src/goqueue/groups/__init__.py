"""Log groups: who is a member, who reads which partition, and how far each group has read."""
