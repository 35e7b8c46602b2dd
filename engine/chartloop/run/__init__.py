"""Running a machine: ports, journal, loop, replay. Effects happen only here, through ports."""
