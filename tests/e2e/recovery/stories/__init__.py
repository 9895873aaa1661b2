"""What becomes of failing pods: told once, played on the simulator and on a real control plane.

Each story has a ward of its own, in which nothing else happens. On the simulator it has the program for
itself, too; on the real control plane several are played at a time, and one program sees to all of them.
"""
