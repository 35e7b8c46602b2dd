"""The codes of findings and errors: stable, each with a cause and a cure.

``docs/reference/errors.md`` is generated from this table, and a `Finding` takes its severity from
it. A code is never reused for something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from chartloop.core.errors import NOWHERE, Finding, Place, Severity


class Code(NamedTuple):
    """A kind of mistake, with its cause and its cure."""

    code: str
    title: str
    cause: str
    cure: str
    severity: Severity = Severity.ERROR


_W = Severity.WARNING

_ROWS = (
    # CL0xx: the text is not YAML, or not the subset that machine files use
    Code("CL001", "YAML syntax", "The text is not YAML.", "Fix the line shown; indent with spaces, and quote text that contains `: ` or ` #`."),
    Code("CL002", "duplicate key", "A mapping has the same key twice; the second would silently replace the first.", "Rename or remove one of them."),
    Code("CL003", "tag", "A `!tag` requests a custom type. A machine file cannot construct objects.", "Remove the tag and write the plain value."),
    Code("CL004", "merge key", "`<<` is not part of YAML 1.2.", "Write the keys out."),
    Code("CL005", "file too large", "The file, its nesting or the expansion of its aliases exceeds the limits of a machine file (1 MB, 50,000 nodes, depth 60).", "Split the machine, or write the repeated part only once."),
    Code("CL006", "key is not a word", "A mapping key is a list, a mapping or empty.", "Use a plain word as the key."),
    Code("CL007", "guard needs quotes", "Inside `{...}` or after `: ` YAML reads `, [ ] { } : # ?` as its own signs, so the guard arrives cut or as a mapping.", "Put the whole guard in quotes: `when: '\"x\" in vars.list'`."),
    # CL1xx: an expression
    Code("CL101", "expression syntax", "The expression cannot be read.", "Write a Python expression of facts, numbers and comparisons."),
    Code("CL102", "not allowed in an expression", "Guards are a small, total language: no `**`, shifts, lambdas, f-strings, private names, string `+` or `*`, or calls of anything not listed.", "Compute it in an action and save it into a variable."),
    Code("CL103", "unknown fact", "A name is not a fact, limit, variable, memory block or definition of this machine.", "See `chartloop info facts` for the list; declare variables under `vars`, limits under `limits`."),
    Code("CL104", "types do not fit", "Two unlike types are compared or combined, or a value has another type than declared.", "Compare like with like: durations with `duration(\"24h\")` or a duration limit, fractions with `95%` limits or numbers up to 1."),
    Code("CL105", "may be None", "A fact that may be None is used without a test.", "Test it first: `x is not None and x >= ...`."),
    Code("CL106", "a guard must be true or false", "The expression gives a number, a text or a list, not a bool.", "Compare it: `len(vars.list) > 0`."),
    Code("CL107", "expression too large", "Longer than 2,000 characters, 300 nodes, 40 levels, or a list of over 10,000.", "Name parts of it under `define`, or compute it in an action."),
    Code("CL108", "unknown function", "Only `len min max abs round duration any all count sum`, the listed string methods and registered guards may be called.", "Use one of them, or register a guard of that name in Python."),
    Code("CL109", "limit may be off", "A limit that may be off is used in a way that is undefined when it is off.", "Compare it as `fact >= limits.x`, or test `limits.x is not None` first."),
    Code("CL110", "type not known", "The value is of type `any`: it can be saved into a variable, but not compared.", "Save it into a typed variable first and read that."),
    Code("CL111", "no such word", "A fact that names a tool, state, action or reason, or has a fixed set of words, is compared with another word.", "Use one of the words shown, or declare the tool or reason."),
    Code("CL112", "circular definition", "Definitions under `define` use each other in a circle.", "Break the circle."),
    Code("CL113", "bare word", "A bare word appears where text is expected.", "Write the text in double quotes inside the quotes of YAML: `'\"Running\"'`."),
    Code("CL114", "misspelt word", "A text is compared with a word that the file never assigns to it, and that is similar to one it does assign.", "Use the suggested word. If a caller really passes the other one, accept the finding under `ignore`."),
    Code("CL115", "word that nothing gives", "A variable is compared with a word that the file never writes into it: only a caller could, with `--var`.", "Use one of the words shown, or accept the finding under `ignore`.", _W),
    Code("CL116", "loop over a list", "A state with `for` cannot loop over its list: `in` is not a list, or the loop would create a state or variable that already exists.", "Write `{for: vars.item, in: vars.list, each: state, then: state}`."),
    Code("CL117", "may not be there", "A template needs a value of a fact that may be None, or a template or `save` reads a part that a result or answer may lack. If it is not there, the action fails; a message is written without its text.", "Test it: `{% if errors.last %}`, or write `| default(\"\")`. Let a schema require the property.", _W),
    Code("CL118", "template that always fails", "A template reads a part of a fact that is None on every path to it, or that the last result or answer never has: the action fails in every run that reaches it.", "Read it where it is there, or save it into a variable when it is."),
    # CL2xx: the shape of the file
    Code("CL201", "unknown key", "The language has no such key here.", "Use the suggested key, or remove it."),
    Code("CL202", "missing key", "A required key is missing.", "Add it."),
    Code("CL203", "wrong kind of value", "For example text in place of a mapping, or a number in place of a list.", "Write the kind named in the message."),
    Code("CL204", "bad name", "Names are lower case: a letter, then letters, digits and underscores.", "Rename it."),
    Code("CL206", "unknown format version", "The file names a format version other than `chartloop: 1`.", "Write `chartloop: 1` as the first line."),
    Code("CL207", "keys do not go together", "A state or edge has keys of two different jobs.", "Give each state one job; split it into two states."),
    Code("CL208", "unknown word", "The value is not one of the words allowed here.", "Use one of the listed words."),
    Code("CL209", "cannot be read as a quantity", "A limit or duration is not in a known notation.", "Write `30m`, `1h30m`, `95%`, `1_000_000`."),
    Code("CL210", "version or number needs quotes", "YAML reads `1.10` as the number 1.1.", "Quote it: `\"1.10\"`."),
    Code("CL211", "named twice", "A list names the same thing twice: a tool, a task, a state, a branch.", "Remove one of them."),
    # CL3xx: the machine
    Code("CL301", "unknown state", "An edge, rule or key names a state that does not exist.", "Use the suggested name, or add the state."),
    Code("CL302", "no states", "A machine needs at least one state.", "Add `states:` with a first state."),
    Code("CL303", "unknown start", "`start` names a state that does not exist.", "Name one of the states, or leave `start` out: the first state is the start."),
    Code("CL304", "unreachable state", "No edge, rule or detour leads to the state.", "Lead an edge to it or remove it."),
    Code("CL305", "dead end", "The run would be stuck: the state has no outgoing edge and is not an end.", "Add `next`, or make it an end with `end:` or `stop:`."),
    Code("CL306", "edge out of an end", "An end has an edge that can never be taken.", "Remove the edge, or `end`."),
    Code("CL307", "never taken", "An edge or rule follows one that always holds, or repeats an earlier one.", "Move it up, or remove it."),
    Code("CL308", "loop without an action", "Passing and deciding states form a loop that no action interrupts: a step would never end.", "Put an action or a wait into the loop."),
    Code("CL309", "no edge is certain", "Every edge has a guard, and it is not certain that one of them holds: the run could be stuck.", "Give the last edge no `when`, or add `else`."),
    Code("CL310", "branches never meet", "The branches of `all` never join.", "Let every branch that does not stop lead to one state."),
    Code("CL311", "not in a branch", "A branch of `all` holds an action, a wait, another `all`, a `set`, or an edge with `stop`; branches only decide.", "Move it after the state where the branches join."),
    Code("CL312", "epilogue does not end", "After a `stop` a path never reaches an end, or loops.", "Lead every path after the stop straight to an end."),
    Code("CL313", "return without a detour", "`next: return` is in a state that can be entered without a detour.", "Use `return` only after a rule with `to` and without `stop`."),
    Code("CL314", "end without a reason", "`end: by_reason` can be reached with no signal raised.", "Raise one with `stop` before it, or write `end: completed`."),
    Code("CL315", "limit that nothing reads", "A limit is declared and no guard, rule, `within` or `with` reads it: it would not be enforced.", "Add the rule, or remove the limit."),
    Code("CL316", "loop without a budget", "A loop passes through a paid action and no budget cuts it: `chartloop bound` lists the budgets.", "Add a rule such as `{when: run.steps >= limits.steps, stop: steps_limit}`.", _W),
    Code("CL317", "label says something else", "A label shows a limit or a comparison that its guard does not have.", "Make the label agree with the guard.", _W),
    Code("CL318", "price unknown", "A cost rule cannot be enforced, because the model's price is not known.", "Give `input_cost_per_token` and `output_cost_per_token` under `model`.", _W),
    Code("CL319", "no path to an end", "From the state no end can be reached.", "Lead a path to an end.", _W),
    Code("CL320", "reserved event", "`advance`, `check` and `expired` are the engine's own events.", "Give the event another name."),
    Code("CL321", "default edge is not the last", "An edge without `when` comes before others, which can never be taken.", "Move it to the end of the list."),
    Code("CL322", "case missing", "`of` can be None or have a value without a case, and there is no `else`.", "Add the case, or `else`."),
    Code("CL323", "window unknown", "The file reads `usage.context_*` and the model's window is not known.", "Write `context_window` under `model`.", _W),
    Code("CL324", "file must be trusted", "The file names a command, a host or a path outside its folder.", "Run it with `--trust`, or list it in your configuration.", _W),
    Code("CL325", "cannot be accepted", "`ignore` names a finding that does not exist, or an error that must be fixed.", "Accept warnings only, and CL114, CL304, CL307 and CL315.", _W),
    Code("CL326", "guard never holds", "The guard can never be true here: it contradicts itself, the type of its fact, or an earlier decision on every path.", "Fix the guard, or remove its edge or rule.", _W),
    Code("CL327", "guard always holds", "A guard holds for every value that its facts can have, so the edges after it, or its `else`, are never taken.", "Compare with a value that can differ, or remove the guard.", _W),
    Code("CL328", "hidden by another", "Whenever an edge or rule holds, an earlier one holds as well: it never decides.", "Move it up, narrow the one before it, or remove it.", _W),
    Code("CL329", "can be jumped over", "A guard that should end something tests a counter with `==`. A counter can jump over the number: by a call that counts several, between two evaluations, or when a limit is changed.", "Write `>=`, or `<` where the loop continues.", _W),
    Code("CL330", "limit never reached", "With the limits as the file sets them a guard never holds: its fact cannot reach that value, or another limit on the same path is reached first.", "Set the limit so that it can be reached, or to `null` to switch it off.", _W),
    Code("CL331", "wait without a deadline", "The file limits the duration of a run, or this wait comes after a stop, and the wait has no `within`: rules are not evaluated while a run waits, so it can wait for ever.", "Add `within` and `expired`.", _W),
    Code("CL332", "comes back for ever", "The detour neither makes its guard false nor counts its own entries, so it triggers again after every action. Or a continuation is allowed a number of times that grows with the run.", "Count it in the guard (`run.visits.STATE < 3`), or do something that makes the guard false.", _W),
    Code("CL333", "tool out of reach", "A tool is offered to the model, but no path leads from the reply to a state that executes calls; or it is listed, but no state offers it.", "Lead an edge to `call_tools`, or take the tool off the list: `allow: []`.", _W),
    Code("CL334", "variable that nothing reads", "A variable is declared, and no guard, `set`, template, `with` or `output` reads it.", "Read it, or remove it.", _W),
    Code("CL335", "reason that nothing raises", "A reason is declared under `reasons`, and nothing in the file raises or reads it.", "Raise it with `stop` or `signal`, or remove it.", _W),
    Code("CL336", "priority tie", "The file gives two reasons one priority, and both can be raised: which of them a run ends with then depends on which came first.", "Give them different priorities.", _W),
    Code("CL337", "secret in the file", "A text in the file looks like a key, a token or a password. Files are read, hashed, journaled and passed on.", "Put it into an environment variable and take it out of the file; then revoke it and issue a new one.", _W),
    Code("CL338", "bypasses the approval", "A state calls a tool directly that `approve` holds back, so the question would not be asked.", "Put your own wait before the state, and take the tool out of `approve`."),
    Code("CL339", "child without the approval", "A child machine executes a tool that `approve` holds back only in its parent.", "Write `approve` in the child as well: the question is asked there, and the parent shows it."),
    Code("CL340", "nothing to approve", "`approve` names a tool whose calls are never executed, or a detour executes them before the question about them is asked.", "Lead to a state with `do: call_tools` that allows the tool, or take it out of `approve`.", _W),
    Code("CL341", "wrong tool arguments", "A state calls a tool with an argument that it does not have, without one that it needs, or with a value that it refuses: the call fails in every run.", "Pass the arguments that the tool declares."),
    Code("CL342", "nothing to send", "A model call comes before anything is in the conversation, and the instructions do not show the task: the model never sees the task.", "Put a state with `do: receive` before it, or show `{{ run.task }}` in `instructions`.", _W),
    Code("CL343", "division by zero, or no such element", "Whenever an expression or template is evaluated, it divides by 0, or reads past the end of a list or a key that a map lacks: by a constant, or a limit or variable that never changes in the file.", "Test first that the divisor is above 0, or that the list or map has it.", _W),
    Code("CL344", "no tasks", "`work` does the next task of the queue, and neither the file nor an action before it adds any, nor does the run wait before it, when a caller could.", "List some under `tasks`, add them with `enqueue`, or write `tasks: []` if the caller passes them.", _W),
    Code("CL345", "no checkpoint", "`restore` needs a `checkpoint`, but no `checkpoint` comes before it on any path: it always fails.", "Put a state with `do: checkpoint` before it."),
    Code("CL346", "no signal", "`stop: highest` stops for a signal that was raised before, but the file never raises one: the run would end for `unknown`.", "Name the reason, or raise a signal before it."),
    Code("CL347", "end out of reach", "With the limits and tasks of the file a rule stops every run before it can reach an end of the file, or before its first action: `>= 0` holds at the start.", "Set the limit higher, or to `null` to switch it off.", _W),
    Code("CL348", "no time", "`within` is 0: the action has no time, or the wait expires as soon as it starts. Or it is shorter than any usual model call.", "Give it time, or leave `within` out.", _W),
    Code("CL349", "retry never made", "A failed attempt is counted before the next one is made, and a rule stops the run for it: some or all attempts of `retry` are never made.", "Let the rule allow more failures, or retry less often.", _W),
    Code("CL350", "loop that nothing ends", "No guard that leaves the loop, and no rule, reads anything that changes in it: once entered it runs for ever, even if it costs nothing.", "Change a value in the loop that its exit reads, or add a rule such as `{when: run.steps >= limits.steps, stop: steps_limit}`.", _W),
    Code("CL351", "nothing to decide", "Every edge of a decision, or every answer to a wait, leads to the same state and does the same.", "Lead one of them elsewhere, or remove the question.", _W),
    Code("CL352", "fact that never moves", "A guard reads a fact that only certain actions or tools move, which the file does not have: it keeps its first value. So a budget over it limits nothing.", "Use an action that moves it, list tools, or read another fact.", _W),
    Code("CL353", "child that nothing runs", "A child machine is declared, but no state or task runs it.", "Run it, or remove it.", _W),
    Code("CL354", "never gets that far", "One value makes another ineffective: a longest wait below the first, a deadline past the end of every run or past the limit on waiting, a longest reply above the window.", "Make the two fit.", _W),
    Code("CL355", "question that is not asked", "`ask_user` prepares the question of the wait that follows, but no wait follows it on any path.", "Lead to a state with `on`, or remove it.", _W),
    Code("CL356", "fork of one", "`all` has one branch: there is nothing to decide at the same time.", "Lead there with `next`, or add a branch.", _W),
    Code("CL357", "error that ends as completed", "A stop for a reason whose runs end as errors leads to `end: completed`: the run is completed, and its reason is an error.", "Write `end: by_reason`.", _W),
    Code("CL370", "left for nothing", "A state or the file leaves tasks, a checkpoint or a prompt, and no state after it uses that.", "Lead to a state that does: `work`, `restore`, `infer`. Or remove it.", _W),
    Code("CL371", "nothing to work on", "A state executes the tool calls of a reply before any model call, a tool edits memory that the file does not have, or a model must call a tool and is offered none.", "Put there what it works on, or remove it.", _W),
    Code("CL372", "word that is never given", "A guard compares a fact with a word that is not among those that the engine gives it.", "Use one of the words that `chartloop info facts` lists.", _W),
    Code("CL373", "item overwritten", "A loop inside another has the same variable for its items, so the outer item is lost.", "Give the inner loop a variable of its own.", _W),
    Code("CL360", "consent ahead of its call", "The answer to a wait leads to a call of a paid tool before the model is asked again, so it is the consent to that call. It may be given ahead, when nobody has seen the call.", "Hold the tool back with `approve`: an answer is then for the calls that were shown. Or list the finding under `ignore`.", _W),
    Code("CL363", "action that always fails", "What an action is given, or what comes before it, makes it fail in every run that reaches it: a text longer than its memory block may be, a part of a reply before any model call, a child that receives a task and is given none.", "Give the action what it needs, or take it out."),
    Code("CL364", "action that fails as written", "With the first values of memory, variables, limits and tasks that the file sets an action fails in every run that reaches it; only a caller could change that.", "Change the value, or the action.", _W),
    Code("CL365", "silence is consent", "A wait of the file that can refuse a call leads to that call as well when no answer comes in time.", "Lead `expired` where the refusal leads.", _W),
    Code("CL366", "private, untrusted, and a way out", "A tool or action that sends out may be given text that is private and text that anybody may have written: who wrote the one can have the other sent.", "Offer the tools in different states, hold the sender back with `approve`, or let a state clean the text.", _W),
    Code("CL367", "call cut by a deadline", "The deadline of a state may cut a call with effects in two, and the model decides again after it: it reads that the outcome is not known, and may ask for the call once more.", "Give the tool a shorter timeout of its own, or say with `in_doubt` at the state what becomes of such a call.", _W),
    Code("CL368", "denial is no error", "The model can ask for a call that is denied again and again, and only a guard over failures is to end that. A denied call is a decision: it does not count in `errors`, and fails no action.", "Add a rule such as `{when: approvals.denied >= 3, stop: no_progress}`.", _W),
    # CL4xx: actions, tools, models, templates
    Code("CL401", "unknown action", "`do` names an action that is not registered.", "`chartloop info actions` lists them; pass your own with `--tools`."),
    Code("CL402", "unknown field", "The action has no such field under `with`.", "Use one of the fields that `chartloop info actions NAME` lists."),
    Code("CL403", "missing field", "The action requires a field that is missing under `with`.", "Add the field; `chartloop info actions NAME` shows its type."),
    Code("CL404", "wrong field", "A field under `with` has a value that the action does not accept.", "Write a value of the type that `chartloop info actions NAME` shows."),
    Code("CL405", "unknown tool", "The file names a tool that is not registered, or that the machine does not list.", "Pass it with `--tools`, and list it under `tools`."),
    Code("CL406", "template", "The template cannot be read, or uses a construct that templates do not allow.", "Templates have `{{ fact }}`, `{% if %}`, one `{% for %}` and the listed filters."),
    Code("CL407", "save", "`save` names a path that the action's result does not have, or a target that cannot be written.", "Write `vars.x: result.path`."),
    Code("CL408", "unknown reason", "`stop` or `signal` names a reason that is neither built in nor declared.", "Declare it under `reasons`."),
    Code("CL409", "unknown machine", "The file names a child machine that cannot be found, or that would run itself.", "Write it under `machines`, or name a shipped machine or a file."),
    Code("CL410", "unknown event", "The file names an event that no wait of this machine takes.", "Use one of the events under `on`."),
    Code("CL411", "unreadable file", "A file that the machine names cannot be read.", "Check the path; it is taken from the machine's folder."),
    Code("CL412", "unreadable flowchart", "The text is not a valid Mermaid flowchart.", "Fix the line shown."),
    Code("CL413", "no JSON Schema", "`output` of `infer` is not a JSON Schema of draft 2020-12, or has a keyword that validators ignore.", "Fix the part that the finding names, or name a pydantic class: `output: Answer`."),
    Code("CL414", "unknown class", "`output` of `infer` names a Python class that was not passed, or that JSON Schema cannot describe.", "Pass its file with `--tools`, or the class with `tools=`."),
    Code("CL415", "class has changed", "A recorded machine names a class whose schema has changed since.", "Load the file that names the class, or restore the old class."),
    Code("CL417", "name that `approve` needs", "The file has a state with a name that `approve` needs for a state it adds.", "Give the state another name."),
    Code("CL430", "tools not locked", "The file declares MCP servers, and no lock beside it says which tools they offer. Checks and proofs read the lock and start no server.", "Run `chartloop tools lock FILE`, look at what it wrote, and keep it with the machine."),
    Code("CL431", "damaged lock", "The lock of the MCP tools cannot be read, was written by a newer version, or was changed by hand.", "Run `chartloop tools lock FILE` again. It shows what changes before it writes."),
    Code("CL432", "lock that does not fit", "The lock lacks a server of the file, or was made for another command, address or environment.", "Run `chartloop tools lock FILE` again."),
    Code("CL433", "tools that look alike", "Two tools of the machine would have one name in a request: providers take no dots, so `calc.add` is sent as `calc__add`.", "Rename the server or the Python tool."),
    Code("CL434", "too many tools", "A pattern takes more tools of one MCP server than a model can be offered.", "Name the tools that the machine needs, or use a narrower pattern: `tools: [calc.read_*]`."),
    Code("CL435", "condition not sent", "A model of the file takes no `anyOf`, `oneOf`, `allOf`, `not` or `enum` at the top of a tool's schema: it is told the condition in words, and not bound by it. Arguments that break it are refused before the tool is called.", "Nothing, if the model copes; else ask the server's author for a schema without it, or accept the finding with `ignore`.", _W),
    Code("CL436", "tool left out", "A pattern of the file takes a tool that the lock has left out, because its schema, name or description cannot be used.", "Report it to the server's author, and name the tools that you use instead of the pattern.", _W),
    Code("CL420", "unreadable state diagram", "A line of a `stateDiagram-v2` has no meaning in a machine, or cannot be read.", "Write it as `docs/documents.md` lists, or remove it."),
    Code("CL422", "file of another kind", "The file is an agent, crew, flow or workflow of CrewAI, Google ADK or Microsoft Agent Framework, or a chart or diagram, such as one of Mermaid, SCXML, XState, BPMN, PlantUML or draw.io.", "See `docs/coming-from.md` for what its parts are here. `chartloop import` makes a machine of a Mermaid chart: redraw any other diagram in Mermaid first."),
    Code("CL418", "label braces in a template", "A template prints `{run.task}` literally: only labels use single braces.", "Write `{{ run.task }}`.", _W),
    Code("CL419", "template braces in a label", "A label reads `{{` as a literal brace: only templates use double braces.", "Write `{limits.steps}`.", _W),
    # CL6xx: a call
    Code("CL601", "not in this status", "The status or state of the run does not allow this.", "See `run.status`; a finished run is continued by a new one with `continues`."),
    Code("CL602", "answer not taken", "The wait does not take this event, or not with this data.", "Use one of the events shown."),
    Code("CL603", "value not taken", "A limit or variable cannot take this value.", "Give a value of the declared type."),
    Code("CL604", "unknown run", "No run, or more than one, matches the id.", "`chartloop runs` lists them."),
    Code("CL605", "machine changed", "The file is not the one the run was started with.", "Resume without a file, or pass `--use-new-file`. The error explains the effect of the change on the run, as `chartloop upgrade` does for many."),
    Code("CL606", "script", "A script has too few replies, or unused ones.", "Make the script fit the path."),
    Code("CL607", "setup", "The run needs an extra, a key, a program or a tool that is missing.", "Install or pass the missing part; the message names it. `chartloop doctor` checks the installation."),
    Code("CL608", "journal", "The journal cannot be read or written.", "See the message; the file was not changed."),
    Code("CL609", "fenced", "Another process has taken over this run and drives it now.", "Nothing more was done here. Open the run again to continue from its new position."),
    Code("CL610", "model", "A model call failed.", "The category tells what may help: TRANSIENT: the same call later; RECOVERABLE: a change; CRITICAL: neither."),
    Code("CL611", "no task", "The task is invalid, or the file of tasks cannot be read.", "A task is a text, or a mapping with `text` and optionally `id`, `kind`, `acceptance` and `by`."),
    Code("CL612", "no query", "The query is invalid, or names something that this machine does not have.", "Write `reach A`, `avoid A`, `never A before B`, `never A after B`, `always B after A` or `each TOOL after its own EVENT`."),
    Code("CL613", "driven by another process", "Another process drives this run: the error names it, since when, and until when at least.", "Wait, or stop it there. `--take-over` (`take_over=True`) drives the run here instead; a call in flight may then be paid twice."),
    Code("CL614", "decided by other rules", "The run was recorded by a version of chartloop whose decision rules differ from this version's. The error names the first record that would be decided differently.", "Continue the run with the version that is named, or start a new one. The journal is not damaged."),
    Code("CL615", "answer for another wait", "The answer names another wait or one that is over, or the run does not wait.", "Read the current question (`chartloop show RUN`), and answer that."),
    Code("CL616", "answered already", "This wait was answered before.", "Nothing was sent. `chartloop show RUN` shows the current question."),
    Code("CL617", "answer ahead not taken", "An answer ahead of its question names a state that does not wait, is waiting now, or has an answer already.", "Name a later wait; answer the current question without `ahead`."),
    Code("CL618", "no cursor", "The cursor did not come from a page of the journal.", "Give the `next` of a page of runs, or the `cursor` of an event, unchanged; without one you get the first page."),
    Code("CL619", "cursor gone", "The cursor of an event belongs to another journal, or is beyond the newest event of this one.", "Start again at the oldest or the newest cursor, which the error names."),
    Code("CL630", "MCP server not available", "A server could not be started or reached, did not answer in time, or sent a list of tools that cannot be read. The error shows its last lines on stderr.", "Start its command by hand in the machine's folder, check the address, or give it more time with `connect_timeout`. Then run or resume."),
    Code("CL631", "tools changed since the lock", "A server offers a tool that differs from the lock, or no longer offers it. Descriptions and schemas steer the model, so the run stops before it uses them.", "Look at the difference in the error. If it is right, run `chartloop tools lock FILE` and resume with the new lock."),
    Code("CL621", "chart closed", "Code tried to change a live machine after it was built: a transition added or taken away, a guard set, a callback given.", "Change the machine's file and load it: the new chart has its own picture and hash."),
    Code("CL622", "journal of a newer version", "A newer version of chartloop wrote the journal, or an event in it, which this version cannot read. The journal is not damaged.", "Update chartloop, or name another journal with `--journal`. Nothing was written."),
    Code("CL623", "moved to another run", "The run continues as another one, under a changed file. It takes no messages and is driven no more: what it asked is asked there.", "Continue with the run that the error names. `chartloop fork RUN` starts another run from its records."),
    Code("CL624", "followed by another run", "The run was tried again already, or the next message of its conversation was given. Nothing was done.", "Look at the run that the error names, and go on with that one. To do it once more all the same, say so: `--again` for another attempt, `--branch` for another conversation."),
    Code("CL640", "arguments not taken", "A client called a tool of `chartloop mcp` with arguments that the tool's input schema does not allow, or named a machine that the server does not have.", "Read the tool's input schema. The error names each place; nothing was started."),
    Code("CL641", "plugin not usable", "A requested plugin is not installed, cannot be imported, is incomplete, or uses a name that is taken.", "The error lists the installed plugins, or names the fault and its plugin. Leave the plugin out, or install another version."),
    Code("CL642", "plugin missing", "The run was started with a plugin that is missing now.", "Name it again, with `--plugin` or `plugins=`. The error names it and its distribution; install that if it is missing."),
)  # fmt: skip

CODES: Mapping[str, Code] = MappingProxyType({row.code: row for row in _ROWS})


def finding(
    code: str,
    message: str,
    place: Place = NOWHERE,
    *,
    hint: str = "",
    at: str = "",
    related: tuple[str, Place] | None = None,
) -> Finding:
    """Make a finding with the severity of its code."""
    return Finding(code, CODES[code].severity, message, place, hint, at, related)
