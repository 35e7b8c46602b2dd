"""Running a machine.

A step, in the order in which to read it: `loop`, `act` and the action that it calls, then
`machine.evolve`, `session` and `log`, and the journal's port in `journal` with its rows in
`journal_records`. `loop.drive` goes on to the end and may hold a record back; who listens, as the
command line does, calls `loop.advance` for one record after the other. Who may drive: `lease`,
`lease_holder`, `processes`.

Beside it: messages to a run (`inbox`, `answer`, `question`, `elicitation`), what is read of a run
(`refold`, `replay`, `recorded`, `explanations`, `result`, `stream`, `tally`), what keeps secrets
and broken text out (`redact`, `redact_events`, `sanitize`, `validate_record`), and where it runs
(`sync`, `workers`, `abandon`).
"""
