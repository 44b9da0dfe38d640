#!/usr/bin/env python3
"""Writes tests/golden/chat-templates.txt: the output of Python's jinja2 for the templates below.

    python3 -m venv build/jinja && build/jinja/bin/pip install jinja2
    build/jinja/bin/python tests/llm/chat/template_golden.py > tests/golden/chat-templates.txt

The environment has the settings that chat templates are written for: trim_blocks, lstrip_blocks, break and continue, a
tojson that is json.dumps without escapes, raise_exception, and strftime_now at a fixed moment. First come the sets
of values, each after a line "values KEY bytes". Then come the cases: a line "case NAME KEY template_bytes
output_bytes", the template, the output, each followed by a newline. -1 bytes of template: the same template as before.
-1 bytes of output: jinja2 reports an error. All templates are our own; they use the constructs of the families that
they are named after.
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import SandboxedEnvironment

NOW = datetime.datetime(2025, 3, 9, 7, 5, 2)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.If(jinja2.nodes.Const(True), body, [], []).set_lineno(line)


env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                           extensions=[jinja2.ext.loopcontrols, jinja2.ext.do, Generation])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda form: NOW.strftime(form)

FAMILY = {
    "chatml": """{%- for message in messages -%}
{%- if loop.first and messages[0]['role'] != 'system' -%}
{{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' -}}
{%- endif -%}
{{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
""",
    "llama2": """{% if messages[0]['role'] == 'system' %}
{% set system_message = messages[0]['content'] %}
{% set loop_messages = messages[1:] %}
{% else %}
{% set system_message = false %}
{% set loop_messages = messages %}
{% endif %}
{% for message in loop_messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Roles must take turns: user/assistant/user/assistant/...') }}
{% endif %}
{% if loop.index0 == 0 and system_message != false %}
{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}
{% else %}
{% set content = message['content'] %}
{% endif %}
{% if message['role'] == 'user' %}
{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}
{{ ' ' + content.strip() + ' ' + eos_token }}
{%- endif %}
{% endfor %}""",
    "llama3": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- the system message comes first, so that it stands in the first block #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "You may call these functions.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Tools cannot be put in the first user message when there is none!") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {{- "Answer with one function call in JSON.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + \
'<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One tool call at a time!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "gemma": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') \
}}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Roles must take turns') }}{% endif %}{% if (message['role'] == 'assistant') %}\
{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + \
message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}\
{{'<start_of_turn>model\\n'}}{% endif %}""",
    "gemma3": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
""",
    "phi3": """{% for message in messages %}{% if message['role'] in ['system', 'user'] %}\
{{'<|' ~ message.role ~ '|>\\n' ~ message.content ~ '<|end|>\\n'}}{% elif message['role'] == 'assistant' %}\
{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}\
{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}""",
    "phi4": """{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and \
message['tools'] is not none %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + \
'<|/tool|>' + '<|end|>' }}{% else %}{{ '<|im_start|>' + message['role'] + '<|im_sep|>' + \
message['content']|default('', true) + '<|im_end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}\
{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and \
message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("user and assistant must take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
            {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should have nine characters!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("No such role: " + message["role"]) }}
    {%- endif %}
{%- endfor %}
""",
    "qwen2.5": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\nThese functions may be called:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nA call looks so:\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": \
<args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" \
and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "qwen3": """{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and \
not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = \
content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + \
'\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<tool_call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    "deepseek": """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}\
{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}\
{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}\
{%- endif %}{%- endfor %}{{bos_token}}{{ns.system_prompt}}{%- for message in messages %}{%- if message['role'] == \
'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == \
'assistant' and message['tool_calls'] %}{%- set ns.is_tool = false -%}{%- for tool in message['tool_calls']%}\
{%- if not ns.is_first %}{{'<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + \
'<｜tool▁sep｜>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + tool['function']['arguments']|tojson + \
'\\n' + '```' + '<｜tool▁call▁end｜>'}}{%- set ns.is_first = true -%}{%- else %}\
{{'\\n' + '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + tool['function']['name'] + \
'<｜tool▁call▁end｜>'}}{%- endif %}{%- endfor %}{{'<｜tool▁calls▁end｜><｜end▁of▁sentence｜>'}}\
{%- endif %}{%- if message['role'] == 'assistant' and not message['tool_calls'] %}{%- if ns.is_tool %}\
{{'<｜tool▁outputs▁end｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- set ns.is_tool = false -%}\
{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}\
{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + \
'<｜end▁of▁sentence｜>'}}{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}\
{%- if ns.is_output_first %}{{'<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>' + message['content'] + \
'<｜tool▁output▁end｜>'}}{%- set ns.is_output_first = false %}{%- else %}{{'\\n<｜tool▁output▁begin｜>' + \
message['content'] + '<｜tool▁output▁end｜>'}}{%- endif %}{%- endif %}{%- endfor -%}{% if ns.is_tool %}\
{{'<｜tool▁outputs▁end｜>'}}{% endif %}{% if add_generation_prompt and not ns.is_tool %}\
{{'<｜Assistant｜><think>\\n'}}{% endif %}""",
    "command-r": """{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic_type_map[json_spec.type] is defined %}
{{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}
{{- "List[" + json_to_python_type(json_spec['items']) + "]" }}
{%- elif json_spec.type == "object" %}
{%- if json_spec.additionalProperties is defined %}
{{- "Dict[str, " + json_to_python_type(json_spec.additionalProperties) + ']' }}
{%- else %}
{{- "Dict" }}
{%- endif %}
{%- elif json_spec.type is iterable and json_spec.type is not string %}
{{- "Union[" }}
{%- for t in json_spec.type %}
{{- json_to_python_type({"type": t}) }}
{%- if not loop.last %}
{{- "," }}
{%- endif %}
{%- endfor %}
{{- "]" }}
{%- else %}
{{- "Any" }}
{%- endif %}
{%- endmacro %}
{%- macro tool_parser(tools) %}
{%- for tool in tools %}
{%- if tool.type != 'function' %}
{{- raise_exception("only functions are tools") }}
{%- endif %}
{{- "\\n```python\\ndef " + tool.function.name + "(" }}
{%- for name, spec in tool.function.parameters.properties.items() %}
{%- if not loop.first %}{{ ", " }}{%- endif %}
{{- name + ": " }}
{%- if not name in tool.function.parameters.required %}
{{- 'Optional[' + json_to_python_type(spec) + '] = None' }}
{%- else %}
{{- json_to_python_type(spec) }}
{%- endif %}
{%- endfor %}
{{- ') -> List[Dict]:\\n    \\"\\"\\"' }}{{ tool.function.description }}
{%- for name, spec in tool.function.parameters.properties | dictsort %}
{{- "\\n        " + name + ": " + (spec.description or '') }}
{%- endfor %}
{{- '\\n    \\"\\"\\"\\n    pass\\n```' }}
{%- endfor %}
{%- endmacro %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
{%- set loop_messages = messages[1:] %}
{%- set system_message = messages[0]['content'] %}
{%- elif false == true %}
{%- set loop_messages = messages %}
{%- else %}
{%- set loop_messages = messages %}
{%- set system_message = '## Task and Context\\nYou help people.' %}
{%- endif %}
{{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' }}{{ system_message }}
{%- if tools %}{{ '\\n\\n## Available Tools' }}{{ tool_parser(tools) }}{%- endif %}
{{- '<|END_OF_TURN_TOKEN|>' }}
{%- for message in loop_messages %}
{%- set content = message['content'] %}
{%- if message['role'] == 'user' %}
{{- '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}
{%- elif message['role'] == 'assistant' and message.tool_calls %}
{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Action: ```json\\n[\\n' }}
{%- for tc in message.tool_calls %}
{{- '    {"tool_name": ' ~ (tc.function.name | tojson) ~ ', "parameters": ' ~ (tc.function.arguments | \
tojson(indent=4) | indent(4)) ~ '}' ~ (',\\n' if not loop.last else '\\n') }}
{%- endfor %}
{{- ']```<|END_OF_TURN_TOKEN|>' }}
{%- elif message['role'] == 'assistant' %}
{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}
{%- elif message['role'] == 'tool' %}
{{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><results>\\nDocument: ' ~ loop.index0 ~ '\\n' ~ content ~ \
'</results><|END_OF_TURN_TOKEN|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}
{%- endif %}""",
    "granite": """{%- set ns = namespace(system='', docs=[]) -%}
{%- if messages[0]['role'] == 'system' %}
    {%- set ns.system = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set ns.system = "Knowledge Cutoff Date: April 2024.\\nToday's Date: " + strftime_now('%B %d, %Y') + ".\\nYou \
are Granite." %}
    {%- if tools and documents %}
        {%- set ns.system = ns.system + " You have tools and documents." %}
    {%- elif tools %}
        {%- set ns.system = ns.system + " You have tools." %}
    {%- elif documents %}
        {%- set ns.system = ns.system + " You have documents." %}
    {%- endif %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + ns.system + '<|end_of_text|>\\n' }}
{%- if tools %}
    {{- '<|start_of_role|>tools<|end_of_role|>' }}
    {{- tools | tojson(indent=4) }}
    {{- '<|end_of_text|>\\n' }}
{%- endif %}
{%- if documents %}
    {{- '<|start_of_role|>documents<|end_of_role|>' }}
    {%- for document in documents %}
        {{- 'Document ' + loop.index | string + '\\n' }}
        {{- document['text'] }}
        {%- if not loop.last %}
            {{- '\\n\\n'}}
        {%- endif %}
    {%- endfor %}
    {{- '<|end_of_text|>\\n' }}
{%- endif %}
{%- for message in loop_messages %}
    {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' }}
    {%- if message.tool_calls %}<|tool_call|>{{ message.tool_calls | map(attribute='function') | list | tojson }}\
{%- endif %}
    {{- (message['content'] or '') + '<|end_of_text|>\\n' }}
    {%- if loop.last and add_generation_prompt %}
        {{- '<|start_of_role|>assistant' }}
            {%- if controls %}
                {{- ' ' + controls | tojson()}}
            {%- endif %}
        {{- '<|end_of_role|>' }}
    {%- endif %}
{%- endfor %}""",
    "hermes-tools": """{%- macro type_of(param) -%}
    {%- set ns = namespace(text='any') -%}
    {%- if param.anyOf is defined and param.anyOf %}
        {%- set ns.text = param.anyOf | map(attribute='type') | join(' | ') -%}
    {%- elif param.type is string -%}
        {%- set ns.text = param.type -%}
    {%- endif -%}
    {{ ns.text }}
{%- endmacro -%}
{%- macro field(name, value, quote="'", sep=", ") -%}
{{ name }}={{ quote ~ value ~ quote }}{{ sep }}
{%- endmacro -%}
{%- macro block(title) -%}
### {{ title | upper }}
{{ caller(title | length) }}
### end
{%- endmacro -%}
{% call(n) block('tools') %}
{% for tool in tools or [] %}
- {{ tool.function.name }} ({{ n }}):{% for name, p in (tool.function.parameters.properties | default({})).items() %} \
{{ field(name, type_of(p), sep='') }}{% else %} none{% endfor %}

{% endfor %}
{% endcall %}
{% filter indent(2, first=True) %}
{% for m in messages if m.content is string and m.content | trim %}
{{ loop.index }}/{{ loop.length }} {{ m.role | title }}: {{ m.content | trim | replace('\\n', ' ') }}
{% endfor %}
{% endfilter %}
{% set summary %}
{{ messages | map(attribute='role') | unique | join(',') }}
{% endset %}
[{{ summary | trim }}]""",
    "smollm3": """{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- set reasoning_mode = "/think" if enable_thinking else "/no_think" -%}
{{- "<|im_start|>system\\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}
    {%- set reasoning_mode = "/no_think" -%}
  {%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{{- "## Metadata\\n\\nToday Date: " ~ strftime_now("%d %B %Y") ~ "\\nReasoning Mode: " + reasoning_mode + "\\n\\n" -}}
{%- if custom_instructions -%}{{- custom_instructions + "\\n\\n" -}}{%- endif -%}
{%- if xml_tools or python_tools or tools -%}
  {{- "### Tools\\n\\n" -}}
  {%- set ns = namespace(xml_tool_string="Functions:\\n\\n<tools>\\n") -%}
  {%- for tool in (xml_tools or tools)[:] -%}
    {%- set ns.xml_tool_string = ns.xml_tool_string ~ (tool | string) ~ "\\n" -%}
  {%- endfor -%}
  {{- ns.xml_tool_string + "</tools>\\n" -}}
{%- endif -%}
{{- "<|im_end|>\\n" -}}
{%- for message in messages if message.role != "system" -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "assistant" -%}
    {%- generation -%}
    {{- "<|im_start|>assistant\\n" + ("<think>\\n\\n</think>\\n" if reasoning_mode == "/no_think") + \
content.lstrip("\\n") + "<|im_end|>\\n" -}}
    {%- endgeneration -%}
  {%- else -%}
    {{- "<|im_start|>" + message.role + "\\n" + content + "<|im_end|>\\n" -}}
  {%- endif -%}
{%- endfor -%}
""",
}

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description":
                                      "The weather at a place: \"now\" <or> later",
     "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Zürich, 東京"},
      "days": {"type": "integer", "minimum": 1}, "units": {"type": ["string", "null"]},
      "at": {"type": "array", "items": {"type": "number"}}}, "required": ["city"]}, "return": {"type": "string"}}},
    {"type": "function", "function": {"name": "noop", "description": "Nothing",
                                      "parameters": {"type": "object", "properties": {}, "required": []}}},
]
CALL = [{"id": "abcdef123", "type": "function", "function": {"name": "get_weather",
                                                             "arguments": {"city": "Zürich", "days": 2, "at": [
                                                                 1.5, -2e-7, 1e22]}}}]
BASE = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "tools": None, "documents": None}
VALUES = {
    "one": dict(BASE, messages=[{"role": "user", "content": "Hello"}]),
    "system": dict(BASE, messages=[{"role": "system", "content": " Be brief.\n"},
                                   {"role": "user", "content": "  What is 2+2? "},
                                   {"role": "assistant", "content": "<think>\nEasy.\n</think>\n\n4"},
                                   {"role": "user", "content": "And 3+3?\n"}]),
    "turns": dict(BASE, add_generation_prompt=False, enable_thinking=False,
                  messages=[{"role": "user", "content": "Grüße, 東京 🙂"},
                            {"role": "assistant", "content": "\n\nHi\n"}]),
    "tools": dict(BASE, tools=TOOLS, messages=[{"role": "user", "content": "Weather?"},
                                               {"role": "assistant", "content": None, "tool_calls": CALL},
                                               {"role": "tool", "content": "{\"t\": 21}", "tool_call_id": "abcdef123",
                                                "name": "get_weather"},
                                               {"role": "assistant", "content": "21 degrees"},
                                               {"role": "user", "content": "Thanks"}]),
    "parts": dict(BASE, enable_thinking=True, documents=[{"text": "first"}, {"text": "second"}],
                  controls={"length": "short"},
                  messages=[{"role": "user", "content": [{"type": "image"},
                                                         {"type": "text", "text": " What is it? "}]}]),
    "wrong": dict(BASE, messages=[{"role": "assistant", "content": "I begin"},
                                  {"role": "assistant", "content": "and go on"}]),
}

X = {"s": "Hello, World", "u": "Grüße ÄÖ ß 東京 🙂", "empty": "", "blank": " \t\n x y \u00a0\n", "n": 7,
     "neg": -7, "f": 2.5, "big": 9007199254740993, "yes": True, "no": False,
     "nothing": None, "list": [3, 1, 2], "words": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4, {"k": "v"}]]],
     "map": {"b": 1, "a": [1, 2], "items": "key", "x y": None},
     "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []},
                {"name": "Cy", "age": 30}], "lines": "one\n\n two\nthree\n",
     "quote": "it's \"so\" \\ \n\t\u0001\u00e9\u2028", "floats": [0.1, 1.0, 1e16, 1e-5, 123456789.125, -0.0, 1e100,
                                                                  5e-324, 0.30000000000000004]}

EXPRESSIONS = """
n + 1, n - 10, n * 2, n / 2, n // 2, n % 3, n ** 2 @ neg // 2 @ neg % 3 @ -n ** 2 @ 2 ** 3 ** 2 @ n // -2 @ n % -3
f * 2 @ f // 1 @ 7.5 % 2 @ -7.5 % 2
1 / 4 @ 2 ** -1 @ 2 ** 0.0 @ 1 + 2 * 3 - 4 / 2 @ (1 + 2) * 3 @ 10 - 3 - 2 @ 1 ~ 2 ~ 'x' ~ none ~ true @ 'a' + 'b' * 3
3 * 'ab' @ [1] * 3 + [2]
(1, 2) + (3,) @ () @ (1,) @ [] @ {} @ [1, 2,] @ {'a': 1,} @ n == 7 and f == 2.5 @ n != 7 or no @ not n @ not no and yes
no or nothing @ no or 'x'
yes and 'y' @ 1 == 1.0 @ true == 1 @ '1' == 1 @ none == false @ [1, 2] == [1, 2] @ (1,) == [1] @ 1 < 2 < 3 @ 1 < 3 < 2
3 > 2 >= 2 != 1 @ 1 < 2 == 2
'a' < 'b' @ [1, 2] < [1, 3] @ 1 == 2 == 3 @ 1 < n < 10 and yes @ 'ell' in s @ '' in s @ 3 in list @ 4 not in list
'a' in map @ 'z' in map
'x' in missing @ not 3 in list @ n in [7] and true @ 'a' if yes else 'b' @ 'a' if no else 'b' @ 'a' if no
'a' if no else 'b' if no else 'c'
('a' if yes else 'b') ~ 'c' @ [1 if no else 2, 3] @ 'x' if yes and n > 3 else 'y'
1 if 0 else 2 if 0 else 3 if 1 else 4 @ s[0] @ s[-1] @ s[1:4]
s[:-2] @ s[::2] @ s[::-1] @ s[10:2:-3] @ s[100] @ s[5:100] @ u[2] @ u[-1] @ u[3:9] @ u[::-1] @ list[0] @ list[-1]
list[1:] @ list[::-1] @ list[-2:]
list[:0] @ list[5] @ list[True] @ map.b @ map['a'][1] @ map.a.1 @ map['items'] @ map['x y'] @ map.zzz
nested[1][1][1].k @ people[0].name @ map.get('b')
map.get('q') @ map.get('q', 'none') @ people[0]['tags'][0] @ s.upper() @ s.lower() @ s.title() @ s.capitalize()
u.upper() @ u.lower() @ s.strip('Hd')
blank.strip() @ blank.lstrip() @ blank.rstrip() @ s.split(', ') @ s.split() @ blank.split() @ s.split('l', 1)
s.rsplit('l', 1) @ s.split('zz')
''.split() @ ''.split(',') @ s.startswith('Hell') @ s.startswith(('x', 'H')) @ s.endswith('ld') @ s.startswith('W', 7)
s.replace('l', 'L')
s.replace('l', 'L', 2) @ s.replace('', '-') @ s.find('o') @ s.rfind('o') @ s.find('z') @ u.find('ß') @ s.count('l')
s.index('W') @ '-'.join(['a', 'b'])
'12'.isdigit() @ '1a'.isdigit() @ 'ab'.isalpha() @ 'a1'.isalnum() @ ' '.isspace() @ 'AB'.isupper() @ 'ab'.islower()
''.isdigit()
s.removeprefix('Hello') @ s.removesuffix('World') @ '7'.zfill(3) @ '-7'.zfill(4) @ 'a'.ljust(3) ~ '|' @ 'a'.rjust(3)
'a'.center(4, '*')
'abc'.center(6, '*') @ lines.splitlines() @ lines.splitlines(true) @ 'a=b=c'.partition('=') @ '{} and {}'.format(1, 'x')
'{0}{1}{0}'.format('a', 'b')
'{a}{{}}'.format(a=1) @ '%s is %d' % ('x', 3) @ '%05.1f' % f @ '%%%s' % 1 @ '%-4s.' % 'a' @ '%3d' % 5 @ '%s'|format(3)
'%r' % 'x' @ map.items()|list
map.keys()|list @ map.values()|list @ map.items()|list @ people|map(attribute='name')|list @ map|length @ map|dictsort
map.items()|first @ s|upper @ s|lower
s|title @ 'a-b (c) don\\'t'|title @ s|capitalize @ u|upper @ u|length @ s|length @ list|length @ u|wordcount
words|sort @ 'ÄäßZz'|list|sort @ 2.5 is odd @ 3.0 is odd @ nothing|map('upper')|list @ 0|select|list @ yes|round
blank|trim @ s|trim('Hd') @ s|first @ s|last
list|first @ list|last @ []|first @ list|sort @ list|sort(reverse=true) @ words|sort @ words|sort(case_sensitive=true)
people|sort(attribute='age')|map(attribute='name')|list
people|sort(attribute='name', reverse=true)|map(attribute='name')|list @ words|unique|list
list|sum @ people|sum(attribute='age') @ list|min @ list|max @ words|max @ []|max @ list|reverse|list @ s|reverse
words|join(', ')
people|join(', ', attribute='name') @ [1, none, 'x']|join('-') @ 'abc'|join('.') @ people|selectattr('tags')|list|length
people|selectattr('age', 'eq', 30)|map(attribute='name')|list
people|rejectattr('age', 'gt', 25)|map(attribute='name')|list
people|selectattr('tags', 'defined')|list|length @ list|select('odd')|list @ list|reject('gt', 1)|list
[0, 1, '']|select|list
[1, 'x']|select('string')|list @ words|map('upper')|list @ words|map('replace', 'a', 'z')|list
people|map(attribute='tags', default='none')|list
people|map(attribute='tags.0')|list @ [' a ', 'b ']|map('trim')|join('|') @ [1, 2]|map('string')|list
missing|default('d') @ ''|default('d')
''|default('d', true) @ nothing|default('d') @ none|default('d', boolean=true) @ missing.x is defined @ '42'|int
'x'|int @ 'x'|int(5)
'0x1f'|int(base=16) @ 3.9|int @ '3.9'|int @ ' 12 '|int @ '1_000'|int @ true|int @ '2.5'|float @ 'x'|float @ 3|float
n|string @ '1e3'|float @ '-12'|int
2.5|round @ 3.5|round @ 2.567|round(2) @ 2.567|round(1, 'floor') @ 2.1|round(method='ceil') @ 7|round @ 1234|round(-2)
-2.5|abs @ n|abs
3.14159|round(3) @ lines|indent @ lines|indent(2, true) @ lines|indent('> ', first=true, blank=true) @ lines|wordcount
'<a href="x">&\\'</a>'|e
s|safe @ s|replace('o', '0') @ s|replace('l', 'L', 1) @ 12|replace(1, 'x') @ map|tojson @ nested|tojson
nested|tojson(indent=2) @ map|tojson(indent=4)
[]|tojson(indent=2) @ {}|tojson @ quote|tojson @ u|tojson @ u|tojson(ensure_ascii=true) @ floats|tojson
map|tojson(sort_keys=true)
[1, [2]]|tojson(separators=(',', ':')) @ {1: 2, true: none, none: 1.5}|tojson @ (1, 2)|tojson @ '<&>'|tojson
list|map('tojson')|list @ nested|string
map|string @ quote|string @ [quote]|string @ floats|string @ [none, true, 1.5, 'a', "it's"] @ u|string
['\\x7f\\xa0é\\u2028']|string @ n is odd
n is even @ n is divisibleby 7 @ n is divisibleby(2) @ n is number @ s is string @ s is not string @ list is iterable
map is mapping @ list is sequence
s is sequence @ missing is defined @ missing is undefined @ n is defined @ nothing is none @ yes is boolean
1 is boolean @ yes is true @ no is false
n is integer @ f is float @ yes is integer @ yes is number @ s is lower @ 'abc' is lower @ 'ABC' is upper @ n is eq 7
n is gt(3) @ n is in [7]
3 is in(list) @ range is callable @ s is callable @ 'upper' is filter @ 'zz' is filter @ 'odd' is test @ not s is string
s is string and n is number
n is sameas n @ range(5)|list @ range(2, 5)|list @ range(5, 0, -2)|list @ range(0)|list @ dict(a=1, b='x')
namespace(a=1).a @ range(3)|length
range(4)|sum @ strftime_now('%Y-%m-%d %H:%M:%S') @ strftime_now('%d %b %Y') @ strftime_now('%A, %B %d')
strftime_now('%I:%M %p %j %y %a')
strftime_now('100%%') @ 'a' 'b' "c" @ '\\n\\t\\\\\\'\\x41\\u00e9\\101\\q' @ "dq 'in'" @ 1_000 @ 0x1F @ 0b101 @ 0o17
1.5e3 @ 1e2 @ 0.1 + 0.2 @ 1e16
100000.0 * 10 @ 1/3 @ big @ -big @ floats @ 1.0 @ 123456789012345680.0 @ true @ True @ None @ none @ missing
missing ~ 'x' @ missing == missing
missing|list @ missing|length @ missing|join @ missing|upper @ missing or 'x' @ missing is none @ missing|string ~ '.'
[1, 2, 3][1]
{'a': {'b': [5]}}['a'].b[0] @ 'abc'[1] @ (1, 2)[0] @ {'a': 1}.a @ [[1, 2], [3]][0][1] @ {'k' ~ 1: 2} @ {1: 'one'}[1]
{'a': 1}['a'] + 1
['a', 'b'] + words @ list|sum + 1 @ list|length > 2 @ -list|length @ -n|abs @ not list|length == 3 @ s|upper ~ '!'
(s ~ '!')|upper
s|upper|lower|title @ n|string|length @ words.index('c') @ list.count(1) @ people|length // 2 @ (people|first).name
people[:2]|length @ people[-1].name
words|sort|first @ words @ list|first
7.0|round(0, 'ceil') @ 7|round(0, 'ceil') @ 7.2|round(0, 'ceil') @ -7.0|round(0, 'ceil') @ -7.2|round(0, 'ceil')
7.0|round(0, 'floor') @ -7.2|round(0, 'floor') @ -7|round(0, 'floor') @ 0.0|round(0, 'ceil')
-0.5|round(0, 'ceil') @ 0.25|round(1, 'ceil') @ 1200|round(-2, 'ceil') @ 1201|round(-2, 'ceil')
1299|round(-2, 'floor') @ 1250|round(-2) @ 1350|round(-2) @ 1250.5|round(-2) @ 2.675|round(2) @ 7.5|round(0, 'odd')
s.startswith(s) @ s.endswith(s) @ s.startswith(s ~ '.') @ s.endswith('.' ~ s) @ s.startswith('') @ ''.endswith('')
s.startswith('h') @ s.count('') @ ''.count('') @ 'aaaa'.count('aa') @ 'ü'.count('')
"""
BROKEN = ["{% if %}", "{% for x %}{% endfor %}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{% endif %}", "{% if 1 %}",
          "{{ 'abc }}", "{# x", "{% set %}", "{% set x 1 %}", "{{ a b }}",
          "{{ x|nofilter }}", "{{ x is notest }}", "{% unknown %}",
          "{% for x in [1] %}{% else %}{% else %}{% endfor %}", "{% macro %}{% endmacro %}", "{{ [1, 2 }}",
          "{{ {'a' 1} }}", "{{ x. }}",
          "{{ x[] }}", "{% break %}", "{% raw %}x", "{{ 1 if }}", "{{ f(a=1, 2) }}", "{% if 1 %}{% endfor %}",
          "{{ 'x' | }}", "{{", "{%", "{% call x %}{% endcall %}", "{{ missing.a.b }}", "{{ missing() }}",
          "{{ missing + 1 }}", "{{ 1 + 'a' }}", "{{ [] + 1 }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}", "{{ none.x.y }}",
          "{{ 'a' < 1 }}", "{{ raise_exception('no') }}", "{% for a, b in [[1]] %}{% endfor %}",
          "{% set x.y = 1 %}", "{{ s.nomethod() }}", "{{ n() }}", "{{ none|length }}",
          "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
          "{{ range(1000000) }}",
          "{{ missing|tojson }}", "{{ [1, 'a']|sort }}", "{% for x in 5 %}{% endfor %}", "{{ - 'a' }}", "{{ 5 in 5 }}",
          "{{ missing < 1 }}", "{% include 'x' %}", "{{ s.split('') }}"]
TEMPLATES = [
    "a\n{% if yes %}\n  b\n{% endif %}\nc\n", "  {% if yes %}x{% endif %}  \n  {{ n }}  \n",
    "a {%- if yes %} b {%- endif %} c", "a {%+ if yes +%}\n b{% endif %}", "x\n  {# comment #}\ny {#- c -#} z",
    "x  {#- a\n b -#}  y", "{% raw %}\n {{ x }} {% if %}\n{% endraw %}\nend", "{%- raw -%}  a  {%- endraw -%}  b",
    "line\r\nnext\rlast\r\n", "trailing\n\n", "\n", "", "  {%- set x = 1 -%}  {{ x }}", "{{- n -}}  \n  {{ n }}",
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
    "{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}",
    "{% for x in [] %}a{% else %}b{% endfor %}", "{% for x in list %}{{ x }}{% else %}no{% endfor %}",
    "{% for x in list %}{{ x }}{% continue %}{% else %}no{% endfor %}",
    "{% for x in list %}{% break %}{% else %}no{% endfor %}",
    "{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}",
    "{% for x in list if x > 9 %}a{% else %}none{% endfor %}",
    "{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in map %}{{ k }} {% endfor %}",
    "{% for c in 'aß東' %}[{{ c }}]{% endfor %}", "{% for (a, b) in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in list if x != 2 if yes else no %}{{ x }}{% endfor %}",
    "{% for x in list %}{% for y in words %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}"
    "{% endfor %}!",
    "{% for x in list %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}",
    "{% for x in range(3) %}{% set y %}{% if x == 1 %}{% continue %}{% endif %}v{{ x }}{% endset %}[{{ y }}]"
    "{% endfor %}",
    "{% set x = 0 %}{% for i in list %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}",
    "{% set ns = namespace(x=0) %}{% for i in list %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% for i in [1, 2] %}{{ y }}{% set y = i %}{{ y }}{% endfor %}{{ y }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = [3, 4] %}{{ a }}{{ b }}", "{% set t = 1, 2 %}{{ t }}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x | upper | replace('A', 'z') %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set ns = namespace() %}{% set ns.t %}body{% endset %}{{ ns.t }}",
    "{% if no %}{% set q = 1 %}{% endif %}{{ q }}", "{% if yes %}{% set q = 1 %}{% endif %}{{ q }}",
    "{% if no %}a{% elif n == 7 %}b{% elif yes %}c{% else %}d{% endif %}", "{% if no %}a{% else %}d{% endif %}",
    "{% if missing %}a{% elif nothing %}b{% endif %}.", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aa{% endfilter %}",
    "{% filter indent(width=2) %}a\nb{% endfilter %}",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}x{{ n }}{% endcall %}",
    "{% macro m(l) %}{% for x in l %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(a, b=0) m(list) %}"
    "{{ a }}{{ b }}{{ n }}{% endcall %}",
    "{% set g = 1 %}{% macro m() %}{{ g }}{% set g = 5 %}{{ g }}{% endmacro %}{{ m() }}{{ g }}",
    "{% for q in [1, 2] %}{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m() %}{{ q }}{% endmacro %}{% for q in [1] %}{{ m() }}.{% endfor %}",
    "{% macro outer(p) %}{% macro inner() %}<{{ p }}>{% endmacro %}{{ inner() }}{% endmacro %}{{ outer(4) }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m('a') | upper }}{{ m('b') ~ 'c' }}{{ m(m('z')) }}",
    "{% macro m(a) -%}  x {{- a }} {%- endmacro %}|{{ m(1) }}|",
    "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}{{ m(1) }}",
    "{% macro m(a=[]) %}{% do a.append(1) %}{{ a|length }}{% endmacro %}{{ m() }}{{ m() }}",
    "{% set l = [] %}{% for x in list %}{% do l.append(x * 2) %}{% endfor %}{{ l }}",
    "{% set l = [1] %}{% set _ = l.append(2) %}{% set _ = l.extend([3, 4]) %}{% set _ = l.insert(0, 0) %}{{ l }}"
    "{{ l.pop() }}{{ l.pop(0) }}{{ l }}",
    "{% set d = {} %}{% set _ = d.update({'a': 1}) %}{% set _ = d.update(b=2) %}{{ d }}{{ d.setdefault('c', 3) }}"
    "{{ d.pop('a') }}{{ d }}",
    "{% set d = {'a': 1} %}{% set e = d.copy() %}{% set _ = e.update(a=2) %}{{ d }}{{ e }}",
    "{{ {'a': {'b': {}}} }}{{ '}}' }}{{ \"{% x %}\" }}", "{{ '{{' }}{{ '%}' }}", "{ { n } } {n} % } {",
    "{{ n }}{{n}}{{-n-}}{{ -n }}", "{{ [\n1,\n2\n] }}", "{{ 1 if yes else\n2 }}",
    "{% if n is defined and n is number -%} x {%- endif %}", "{{ people[0]\n.name }}",
    "{%for x in list%}{{x}}{%endfor%}", "{{ x }}{% set x = 1 %}{{ x }}", "{{ loop }}{{ loop is defined }}",
    "{% for p in people %}{% set loopvar = p.name %}{{ loopvar }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for m in people %}{% if loop.index0 > 0 and people[loop.index0 - 1].age == m.age %}same{% else %}new"
    "{% endif %} {% endfor %}",
    "{% set content = [{'type': 'text', 'text': 'a'}, {'type': 'image'}] %}{% for c in content %}"
    "{{ c.text if c.type == 'text' else '<img>' }}{% endfor %}",
    "{% generation %}a{% endgeneration %}b", "{{ (1, 2, 3)[1:] }}{{ [1, 2, 3][::-2] }}{{ 'abc'[::-1] }}",
    "{{ 'a,b;c'.split(',')[1].split(';') | join('+') }}", "{{ n, s }}", "{% if yes %}\n\n  {{ n }}\n{%- endif %}\n",
    "{% set x = 'é' * 3 %}{{ x[1:] }}{{ x | length }}",
    "{%- macro a() -%}1{%- endmacro -%}{%- macro b() -%}{{ a() }}2{%- endmacro -%}{{ b() }}",
    "   {% if yes %}   \n   x\n   {% endif %}   \n", "a{% if yes %}\n\n{% endif %}b",
    "{% if yes -%}\n   x   \n{%- endif %}", "\t{% if yes %}t{% endif %}", "x {% if yes %}\ny {% endif %}\n  z",
    "{# a #}\n{# b #}\nc", "{{ n }}\n{{ n }}\n", "{% set x = 1 %}\n{{ x }}\n\n{% set y = 2 %}\n",
]


def put(*parts):
    sys.stdout.buffer.write(b"".join(p if isinstance(p, bytes) else p.encode() for p in parts))


def write(name, key, values):
    global last
    template = name[1]
    try:
        made = env.from_string(template).render(**values).encode()
        size = len(made)
    except (jinja2.exceptions.TemplateError, SyntaxError, TypeError, ZeroDivisionError, ValueError, OverflowError,
            AttributeError):
        made, size = b"", -1
    t = template.encode()
    put("case %s %s %d %d\n" % (name[0], key, -1 if t == last else len(t), size))
    if t != last:
        put(t, "\n")
    last = t
    put(made, "\n")


last = None


def main():
    sets = dict(VALUES, x=X)
    for key, values in sets.items():
        j = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
        put("values %s %d\n" % (key, len(j)), j, "\n")
    for family, template in FAMILY.items():
        for key, values in VALUES.items():
            write((family + "/" + key, template), key, values)
    for kind, texts in (("expression", ["{{ " + e + " }}" for line in EXPRESSIONS.strip().split("\n")
                                        for e in line.split(" @ ")]), ("template", TEMPLATES), ("broken", BROKEN)):
        for i, t in enumerate(texts):
            write(("%s/%d" % (kind, i), t), "x", X)


main()
