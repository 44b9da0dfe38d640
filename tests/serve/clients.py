"""tests/serve/clients.py PROGRAM [EMBEDDING MODEL] - build/serve by the openai and anthropic clients of PyPI"""
import json
import re
import shutil
import subprocess
import sys

import openai
from served import Checks, Served

STORY = "examples/models/story.gguf"
TALK = [{"role": "user", "content": "one day , Ella"}]
GO = {"type": "function", "function": {"name": "go", "description": "moves", "parameters": {
    "type": "object", "properties": {"to": {"enum": ["north", "south"]}, "fast": {"type": "boolean"}},
    "required": ["to", "fast"], "additionalProperties": False}}}


def refused(call, kind, part):
    try:
        call()
    except kind as e:
        assert part in str(e), e
    else:
        raise AssertionError("the call was not refused")


def main():
    checks = Checks()
    options = ["--embed", sys.argv[2]] if len(sys.argv) > 2 and sys.argv[2] else []
    with Served(sys.argv[1], STORY, *options) as served:
        client = openai.OpenAI(base_url=served.url + "/v1", api_key="none", max_retries=0)
        chat = client.chat.completions.create

        def models():
            assert [m.id for m in client.models.list()] == ["story"]
            assert client.models.retrieve("story").id == "story"
            refused(lambda: client.models.retrieve("other"), openai.NotFoundError, "there is no")

        def talk():
            a = chat(model="story", messages=TALK, max_tokens=20, temperature=0)
            b = chat(model="story", messages=TALK, max_completion_tokens=20, temperature=0, n=2)
            assert a.choices[0].message.content and a.choices[0].finish_reason == "length"
            assert len(b.choices) == 2 and b.choices[1].message.content == a.choices[0].message.content
            assert a.usage.completion_tokens == 20 and a.usage.total_tokens == a.usage.prompt_tokens + 20
            assert b.usage.prompt_tokens_details.cached_tokens > 0
            stream = chat(model="story", messages=TALK, max_tokens=20, temperature=0, stream=True,
                          stream_options={"include_usage": True})
            text, usage, reason = "", None, None
            for event in stream:
                if event.choices:
                    text += event.choices[0].delta.content or ""
                    reason = event.choices[0].finish_reason or reason
                usage = event.usage or usage
            assert text == a.choices[0].message.content and reason == "length" and usage.completion_tokens == 20

        def seeds():
            ask = dict(model="story", messages=TALK, max_tokens=30, temperature=1.5)
            a, b, c = (chat(seed=s, **ask).choices[0].message.content for s in (1, 1, 2))
            assert a == b != c

        def stops():
            a = chat(model="story", messages=TALK, max_tokens=100, temperature=0, stop=[" ."])
            assert a.choices[0].finish_reason == "stop" and "." not in a.choices[0].message.content

        def probabilities():
            a = chat(model="story", messages=TALK, max_tokens=5, temperature=0, logprobs=True, top_logprobs=3)
            steps = a.choices[0].logprobs.content
            assert len(steps) == 5 and "".join(s.token for s in steps) == a.choices[0].message.content
            assert all(s.logprob == s.top_logprobs[0].logprob <= 0 and len(s.top_logprobs) == 3 for s in steps)
            assert all(bytes(s.bytes).decode() == s.token for s in steps)
            banned = client.post("/../tokenize", cast_to=object, body={"content": steps[0].token})["tokens"]
            b = chat(model="story", messages=TALK, max_tokens=5, temperature=0,
                     logit_bias={str(token): -100 for token in banned})
            assert not b.choices[0].message.content.startswith(steps[0].token)

        def forms():
            schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
                                                       "age": {"type": "integer"}},
                      "required": ["name", "age"], "additionalProperties": False}
            a = chat(model="story", messages=TALK, max_tokens=150, temperature=0, response_format={
                "type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}})
            person = json.loads(a.choices[0].message.content)
            assert sorted(person) == ["age", "name"] and isinstance(person["age"], int) and len(person["name"]) <= 8

        def tools():
            a = chat(model="story", messages=TALK, max_tokens=100, temperature=0, tools=[GO], tool_choice="required")
            call = a.choices[0].message.tool_calls[0]
            args = json.loads(call.function.arguments)
            assert a.choices[0].finish_reason == "tool_calls" and call.function.name == "go"
            assert args["to"] in ("north", "south") and isinstance(args["fast"], bool)
            back = [*TALK, a.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "done"}]
            assert chat(model="story", messages=back, max_tokens=5, tools=[GO]).choices[0].message
            made = {}
            for event in chat(model="story", messages=TALK, max_tokens=100, temperature=0, tools=[GO],
                              tool_choice={"type": "function", "function": {"name": "go"}}, stream=True):
                for part in event.choices[0].delta.tool_calls or []:
                    made.setdefault(part.index, ["", ""])
                    made[part.index][0] += part.function.name or ""
                    made[part.index][1] += part.function.arguments or ""
            assert len(made) == 1 and made[0][0] == "go" and json.loads(made[0][1]) == args

        def completions():
            a = client.completions.create(model="story", prompt=["one day", "in the"], max_tokens=4, temperature=0,
                                          echo=True, logprobs=1)
            assert [c.text.startswith(p) for c, p in zip(a.choices, ("one day", "in the"))] == [True, True]
            for c in a.choices:
                p = c.logprobs
                assert p.token_logprobs[0] is None and all(x <= 0 for x in p.token_logprobs[1:])
                assert len(p.tokens) == len(p.token_logprobs) == len(p.top_logprobs) == len(p.text_offset)
                assert "".join(p.tokens) == c.text
                assert [c.text[i:i + len(t)] for i, t in zip(p.text_offset, p.tokens)] == p.tokens
            text = "".join(e.choices[0].text for e in client.completions.create(
                model="story", prompt="one day", max_tokens=4, temperature=0, stream=True))
            assert "one day" + text == a.choices[0].text

        def faults():
            refused(lambda: chat(model="story", messages=[]), openai.BadRequestError, "messages")
            refused(lambda: chat(model="story", messages=TALK, extra_body={"num_ctx": 5}), openai.BadRequestError,
                    "num_ctx is not a field")
            refused(lambda: client.completions.create(model="story", prompt="day " * 3000), openai.BadRequestError,
                    "the available context size of 256 tokens")
            refused(lambda: client.audio.speech.create(model="x", voice="y", input="z"), openai.NotFoundError,
                    "there is no")

        def hang_up():
            stream = chat(model="story", messages=TALK, max_tokens=200, stream=True, extra_body={"ignore_eos": True})
            next(iter(stream))
            stream.close()
            slots = client.get("/../slots", cast_to=object)
            assert chat(model="story", messages=TALK, max_tokens=3).choices[0].message.content and len(slots) == 8

        def embeddings():
            texts = ["one text", "another", "one text"]
            a = client.embeddings.create(model="x", input=texts).data
            b = client.embeddings.create(model="x", input=texts, encoding_format="float").data
            assert [len(x.embedding) for x in a] == [len(x.embedding) for x in b] and a[0].embedding == a[2].embedding
            assert all(abs(p - q) < 1e-7 for x, y in zip(a, b) for p, q in zip(x.embedding, y.embedding))
            assert abs(sum(p * p for p in a[0].embedding) - 1) < 1e-5 and a[0].embedding != a[1].embedding

        def responses():
            ask = dict(model="story", input="one day , Ella", max_output_tokens=20, temperature=0)
            a = client.responses.create(**ask)
            want = chat(model="story", messages=TALK, max_tokens=20, temperature=0).choices[0].message.content
            assert a.output_text == want and a.status == "incomplete" and a.usage.output_tokens == 20
            text, last = "", None
            for event in client.responses.create(stream=True, **ask):
                text += event.delta if event.type == "response.output_text.delta" else ""
                last = event
            assert text == want and last.response.output_text == want
            tool = {"type": "function", "strict": True, **GO["function"]}
            b = client.responses.create(model="story", input="go", temperature=0, tools=[tool], tool_choice="required")
            call = b.output[0]
            assert b.status == "completed" and call.type == "function_call" and call.name == "go"
            back = [{"role": "user", "content": "go"}, call.model_dump(exclude_none=True),
                    {"type": "function_call_output", "call_id": call.call_id, "output": "done"}]
            back[1] = {k: back[1][k] for k in ("type", "call_id", "name", "arguments")}
            assert client.responses.create(model="story", input=back, max_output_tokens=5).output_text
            kinds = [e.type for e in client.responses.create(model="story", input="go", temperature=0, tools=[tool],
                                                             tool_choice="required", stream=True)]
            assert "response.function_call_arguments.done" in kinds and kinds[-1] == "response.completed"

        def messages():
            try:
                import anthropic
            except ImportError:
                print("skipped: messages: the anthropic client is not here")
                return
            other = anthropic.Anthropic(base_url=served.url, api_key="none", max_retries=0)
            ask = dict(model="story", max_tokens=20, messages=TALK, extra_body={"temperature": 0})
            a = other.messages.create(**ask)
            want = chat(model="story", messages=TALK, max_tokens=20, temperature=0).choices[0].message.content
            assert a.content[0].text == want and a.stop_reason == "max_tokens" and a.usage.output_tokens == 20
            with other.messages.stream(**ask) as stream:
                assert "".join(stream.text_stream) == want
                assert stream.get_final_message().content[0].text == want
            b = other.messages.create(**{**ask, "max_tokens": 200}, stop_sequences=[" ."])
            assert b.stop_reason == "stop_sequence" and b.stop_sequence == " ." and "." not in b.content[0].text
            tool = {"name": "go", "input_schema": GO["function"]["parameters"]}
            c = other.messages.create(**{**ask, "max_tokens": 100}, tools=[tool],
                                      tool_choice={"type": "tool", "name": "go"})
            assert c.stop_reason == "tool_use" and c.content[0].input["to"] in ("north", "south")
            back = [*TALK, {"role": "assistant", "content": c.content}, {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": c.content[0].id, "content": "done"}]}]
            assert other.messages.create(**{**ask, "messages": back}, tools=[tool]).content
            with other.messages.stream(**{**ask, "max_tokens": 100}, tools=[tool],
                                       tool_choice={"type": "any"}) as stream:
                assert stream.get_final_message().content[0].input == c.content[0].input
            assert other.messages.count_tokens(model="story", messages=TALK).input_tokens > 3
            try:
                other.messages.create(**ask, thinking={"type": "enabled", "budget_tokens": 1024})
                raise AssertionError("thinking was not refused")
            except anthropic.BadRequestError as e:
                assert "thinking" in str(e)

        def slow():
            """headers, bodies and readers that take their time: others are served meanwhile"""
            tool = shutil.which("slowhttptest")
            if not tool:
                print("skipped: slow: slowhttptest is not here")
                return
            for kind in "-H", "-B", "-X":
                line = [tool, *f"{kind} -c 200 -r 200 -i 1 -l 6 -p 5 -u {served.url}/health".split()]
                said = subprocess.run(line, stdout=subprocess.PIPE, text=True, timeout=60).stdout
                said = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", said)      # colours
                seen = re.findall(r"service available: *(YES|NO)", said)
                assert seen and set(seen) == {"YES"}, (kind, seen)
                assert chat(model="story", messages=TALK, max_tokens=5).choices[0].message.content

        for test in (models, talk, seeds, stops, probabilities, forms, tools, completions, faults, hang_up,
                     responses, messages, slow):
            checks.run(test.__name__, test)
        if options:
            checks.run("embeddings", embeddings)
        else:
            print("skipped: embeddings: no embedding model was named")

    with Served(sys.argv[1], STORY, "--context", "1024") as wide:       # room for the calls that a list may have
        def calls():
            """several calls in one answer, whole and as a stream"""
            other = openai.OpenAI(base_url=wide.url + "/v1", api_key="none", max_retries=0)
            tool = {"type": "function", "function": {"name": "f", "parameters": {
                "type": "object", "properties": {}, "additionalProperties": False}}}
            ask = dict(model="story", messages=TALK, max_tokens=900, temperature=0, tools=[tool],
                       tool_choice="required")
            a = other.chat.completions.create(parallel_tool_calls=True, **ask).choices[0].message.tool_calls
            assert len(a) > 1 and len({c.id for c in a}) == len(a)
            assert all(c.function.name == "f" and json.loads(c.function.arguments) == {} for c in a)
            seen = [c.index for e in other.chat.completions.create(parallel_tool_calls=True, stream=True, **ask)
                    for c in e.choices[0].delta.tool_calls or []]
            assert seen == list(range(len(a))), seen
            b = other.chat.completions.create(parallel_tool_calls=False, **ask).choices[0].message.tool_calls
            assert len(b) == 1

        checks.run("calls", calls)

    def ended():
        assert served.status == 0, served.status

    checks.run("ended", ended)
    checks.end()


main()
