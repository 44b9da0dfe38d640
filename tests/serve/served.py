"""tests/serve/served.py - starts build/serve on a free port, and counts checks"""
import os
import subprocess
import sys
import tempfile

TEMPLATE = ("{% for m in messages %}{{ m.content }} {% for c in m.tool_calls %}{{ c.function.name }} {% endfor %}"
            "{% endfor %}{# tools #}")


class Served:
    def __init__(self, program, model, *options):
        self.folder = tempfile.TemporaryDirectory()
        template = os.path.join(self.folder.name, "template")
        with open(template, "w") as f:
            f.write(TEMPLATE)
        line = [program, model, "--address", "127.0.0.1:0", *options]
        if "--template" not in options and "--no-template" not in options:
            line += ["--template", template]
        line = [word for word in line if word != "--no-template"]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline()
        if " at http://" not in said:
            sys.exit("serve said: " + said)
        self.url = said.split(" at ")[1].strip()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.status = self.process.wait(20)
        self.folder.cleanup()


class Checks:
    passed = failed = 0

    def run(self, name, test):
        try:
            test()
            self.passed += 1
        except Exception as e:
            self.failed += 1
            print(f"{name}: {type(e).__name__}: {e}")

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(self.failed > 0)
