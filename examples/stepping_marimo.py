"""The notebook stepping.ipynb for marimo: `marimo edit examples/stepping_marimo.py`."""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium")


@app.cell
def _():
    import marimo as mo

    from chartloop import load, panel, tool

    return load, mo, panel, tool


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # Step an agent by hand

    The same story as in `stepping.ipynb`, told for marimo. There a run is stepped from cell to
    cell. Here every cell forks the run that it goes on from, so that no cell changes what another
    one shows: a cell that is run again gives the same, and what depends on it follows.

    It needs no key and no network: the model is scripted.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## 1. Load it and look at it

    A state acts (`do`), decides (`ask` with guards), waits for somebody (`on`) or ends (`stop`).
    The rules are looked at after every action, all of them.
    """)
    return


@app.cell
def _(load, tool):
    SHOP = """
    chartloop: 1
    machine: shop
    title: Stock of a small shop
    instructions: Look things up with your tools, never from memory. Order only what is asked for.
    model: {name: openai/gpt-4o-mini}
    tools: [look_up, order]
    limits: {steps: 12, tokens: 2_000}

    rules:
      - {when: run.steps >= limits.steps, stop: steps_limit}
      - {when: usage.total_tokens >= limits.tokens, stop: token_limit, warn_at: 80%}

    states:
      request: {label: Read the request, do: receive, next: think}
      think: {label: Model thinks, do: infer, next: wants}
      wants:
        ask: "What does it want?"
        next:
          - {when: 'any(c.name == "order" for c in last.tool_calls)', label: to order, to: approve}
          - {when: len(last.tool_calls) > 0, label: to look up, to: use_tools}
          - {label: to answer, to: done}
      approve:
        ask: "Order it?"
        on:
          yes: use_tools
          no: {to: refused, data: {why: str}}
      use_tools: {label: Use the tools, do: call_tools, next: think}
      refused: {label: Not ordered, stop: user_requested}
      done: {label: Answer, stop: completed}
    """

    STOCK = {"chair": 0, "table": 3}

    @tool(effect="pure")
    def look_up(name: str) -> str:
        """How many of an item are in stock."""
        return f"{name}: {STOCK[name]}"

    @tool
    def order(name: str, count: int) -> str:
        """Order more of an item. This costs money."""
        return f"ordered: {count} of {name}"

    machine = load(SHOP, tools=[look_up, order])
    machine.draw()
    return (machine,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## 2. Start it, and do one action at a time
    """)
    return


@app.cell
def _(machine):
    REPLIES = [
        {
            "text": "Let me see what we have.",
            "tool_calls": [{"name": "look_up", "arguments": {"name": "chair"}}],
            "usage": {"prompt_tokens": 110, "completion_tokens": 20},
        },
        {
            "text": "None is left. I order four.",
            "tool_calls": [{"name": "order", "arguments": {"name": "chair", "count": 4}}],
            "usage": {"prompt_tokens": 160, "completion_tokens": 24},
        },
        {
            "text": "There were no chairs left; four are on their way.",
            "usage": {"prompt_tokens": 210, "completion_tokens": 14},
        },
    ]

    begun = machine.start("Do we have chairs? Order four if there are none.", script=REPLIES)
    begun.step()  # reads the request
    begun.step()  # the model thinks, and asks for a tool
    begun
    return REPLIES, begun


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## 3. Ask why

    Every rule and every edge that was looked at, with the values that its guard read and what was
    left of each budget.
    """)
    return


@app.cell
def _(begun):
    begun.why()
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## 4. Run on to a question, and answer it

    A fork has the same past and a future of its own. The run waits for a person: both answers are
    given.
    """)
    return


@app.cell
def _(begun, mo):
    waiting = begun.fork()
    mo.plain_text(waiting.run().explain())
    return (waiting,)


@app.cell
def _(mo, waiting):
    agreed = waiting.fork()
    agreed.send("yes")
    mo.plain_text(agreed.run().explain())
    return (agreed,)


@app.cell
def _(mo, waiting):
    refused = waiting.fork()
    refused.send("no", {"why": "Chairs are sold out at the wholesaler."})
    mo.plain_text(refused.run().explain())
    return (refused,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## 5. Compare two runs

    The runs part where the answers differ: up to there their records are the same.
    """)
    return


@app.cell
def _(agreed, mo, refused):
    def led_to(one):
        return [f"{record.kind} at {record.state} → {record.next}" for record in one.records]

    tables = [mo.ui.table(led_to(one), selection=None) for one in (agreed, refused)]
    mo.hstack(tables, widths="equal")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## 6. Go back, and change a limit

    The slider takes records back. From there a fork goes on with another limit; `set` is a record
    like any other, so a run that was edited says so.
    """)
    return


@app.cell
def _(agreed, mo):
    count = len(agreed.records)
    kept = mo.ui.slider(1, count, value=6, label="records that are kept", show_value=True)
    kept
    return (kept,)


@app.cell
def _(agreed, kept):
    earlier = agreed.fork(at=kept.value)
    earlier
    return (earlier,)


@app.cell
def _(earlier, mo):
    limited = earlier.fork()
    if not limited.ended:
        limited.set("limits.tokens", 400)  # two model calls fit in, a third does not
    mo.plain_text(limited.run().explain())
    return (limited,)


@app.cell
def _(limited):
    limited.why()
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    Everything above was recorded. Decided again from the records alone, it comes out the same:
    """)
    return


@app.cell
def _(limited):
    limited.replay().same
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## 7. The same with buttons

    `panel(run)` puts the picture, the decision, the facts and the records beside each other, with
    buttons to step, run to a state, pause, answer, go back and set a limit.
    """)
    return


@app.cell
def _(REPLIES, machine, mo, panel):
    again = machine.start("Do we have chairs? Order four if there are none.", script=REPLIES)
    mo.ui.anywidget(panel(again))
    return


if __name__ == "__main__":
    app.run()
